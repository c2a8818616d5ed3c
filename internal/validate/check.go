package validate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/api/validation"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/offer"
	"hortus.dev/hortus/internal/serverconfig"
	"hortus.dev/hortus/internal/versionclass"
)

// Types of problems besides those of field errors.
const (
	TypeSyntax         = "Syntax"         // The document is no YAML or JSON.
	TypeUnknownKind    = "UnknownKind"    // Our groups have no such kind.
	TypeUnknownField   = "UnknownField"   // The kind has no such field.
	TypeDuplicateField = "DuplicateField" // The field is given twice.
	TypeMalformed      = "Malformed"      // The field cannot hold the value.
	TypeNoOldObject    = "NoOldObject"    // The old manifests lack the object.
)

// Problem is why a server would refuse a manifest.
type Problem struct {
	// Type is one of the above or, for a rule, that of the field error, such as FieldValueInvalid.
	Type  string `json:"type"`
	Field string `json:"field,omitempty"`
	// Line of the file at which the field stands, or the nearest field above it. Zero if that is not known.
	Line    int    `json:"line,omitempty"`
	Value   any    `json:"value,omitempty"`
	Message string `json:"message"`
}

// Result is what was found about one manifest.
type Result struct {
	File       string    `json:"file"`
	Line       int       `json:"line"`
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	Valid      bool      `json:"valid"`
	Problems   []Problem `json:"problems,omitempty"`
	Warnings   []string  `json:"warnings,omitempty"`
	// Skipped says why a manifest was not checked, or not completely.
	Skipped string `json:"skipped,omitempty"`
}

// Options are what the answers depend on besides the manifests.
type Options struct {
	Features  corev1beta1.Features
	Now       time.Time
	Namespace string // For objects that name none.
	Update    bool   // Every object must be among the old ones.
}

// otherScheme knows the kinds of ours that are no part of the garden's API: their rules are in CRDs.
var otherScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // The types are wrong, not their use.
		}
	}
	return scheme
}()

// checker checks manifests among each other's CloudProfiles.
type checker struct {
	options  Options
	profiles map[string]profile // CloudProfiles by name.
	// configMaps are the data of ConfigMaps by key, for those that hold files of API servers.
	configMaps map[string]map[string]string
	old        map[string]document
}

// profile is a CloudProfile in the two forms that rules want.
type profile struct {
	spec     *corev1beta1.CloudProfileSpec
	versions *versionclass.Profile
}

// check checks all documents. old are the stored objects, if the documents are changes.
func check(documents, old []document, options Options) []Result {
	c := checker{options: options, profiles: map[string]profile{}, configMaps: map[string]map[string]string{}, old: map[string]document{}}
	for _, d := range old {
		c.old[c.key(d.object)] = d
	}
	for _, list := range [][]document{old, documents} { // New ones win.
		for _, d := range list {
			c.addProfile(d)
			c.addConfigMap(d)
		}
	}
	results := make([]Result, 0, len(documents))
	for _, d := range documents {
		results = append(results, c.document(d))
	}
	return results
}

func (c *checker) key(object map[string]any) string {
	namespace := stringAt(object, "metadata", "namespace")
	if namespace == "" {
		namespace = c.options.Namespace
	}
	group, _, _ := strings.Cut(stringAt(object, "apiVersion"), "/")
	return strings.Join([]string{group, stringAt(object, "kind"), namespace, stringAt(object, "metadata", "name")}, " ")
}

// addProfile remembers a CloudProfile for the Shoots that use it, unless it is broken.
func (c *checker) addProfile(d document) {
	kind, ok := kindOf(d.object)
	if !ok || kind.Kind != corev1beta1.CloudProfileKind {
		return
	}
	read := kind.New().(*corev1beta1.CloudProfile)
	if _, err := unmarshal(d.object, read); err != nil {
		return
	}
	corev1beta1.SetDefaultsCloudProfile(read)
	if versions, err := versionclass.Compile(read.Name, &read.Spec); err == nil {
		c.profiles[read.Name] = profile{&read.Spec, versions}
	}
}

// addConfigMap remembers what Shoots may refer to.
func (c *checker) addConfigMap(d document) {
	if stringAt(d.object, "apiVersion") != "v1" || stringAt(d.object, "kind") != "ConfigMap" {
		return
	}
	configMap := &corev1.ConfigMap{}
	if _, err := unmarshal(d.object, configMap); err == nil {
		c.configMaps[c.key(d.object)] = configMap.Data
	}
}

// files checks the files of a Shoot's API server whose ConfigMaps are among the manifests.
func (c *checker) files(shoot, old *corev1beta1.Shoot) field.ErrorList {
	var errs field.ErrorList
	for _, file := range serverconfig.Changed(shoot, old) {
		key := c.key(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": shoot.Namespace, "name": file.ConfigMap},
		})
		if data, found := c.configMaps[key]; found {
			errs = append(errs, file.Validate(data)...)
		}
	}
	return errs
}

func kindOf(object map[string]any) (validation.Kind, bool) {
	return validation.Find(schema.FromAPIVersionAndKind(stringAt(object, "apiVersion"), stringAt(object, "kind")))
}

func (c *checker) document(d document) Result {
	result := Result{File: d.file, Line: d.line}
	var problems []Problem
	if d.object != nil {
		result.APIVersion, result.Kind = stringAt(d.object, "apiVersion"), stringAt(d.object, "kind")
		result.Namespace, result.Name = stringAt(d.object, "metadata", "namespace"), stringAt(d.object, "metadata", "name")
		problems = c.object(d, &result)
	}
	// A field given twice is found in the text; the decoder sees only one of the two.
	result.Problems = append(slices.Clone(d.problems), problems...)
	for i := range result.Problems {
		if result.Problems[i].Line == 0 {
			result.Problems[i].Line = d.lines.of(result.Problems[i].Field)
		}
	}
	slices.SortStableFunc(result.Problems, func(a, b Problem) int { return a.Line - b.Line })
	result.Valid = len(result.Problems) == 0
	return result
}

func (c *checker) object(d document, result *Result) []Problem {
	kind, ok := kindOf(d.object)
	if !ok {
		return c.other(d, result)
	}
	object, problems := decode(d.object, kind.New)
	if object.GetNamespace() == "" && kind.Namespaced {
		object.SetNamespace(c.options.Namespace)
		result.Namespace = c.options.Namespace
	}
	options := validation.Options{Features: c.options.Features, Now: c.options.Now, BeforeAdmission: true}

	var stored validation.Object
	if c.options.Update {
		before, found := c.old[c.key(d.object)]
		if !found {
			return append(problems, Problem{Type: TypeNoOldObject, Message: "is not among the old manifests"})
		}
		var err error
		if stored, object, err = c.change(kind, d.object, before.object); err != nil {
			return append(problems, Problem{Type: TypeMalformed, Message: err.Error()})
		}
	}
	kind.SetDefaults(object)
	result.Warnings = kind.Warnings(object, stored, options)
	var errs field.ErrorList
	if shoot, ok := object.(*corev1beta1.Shoot); ok {
		errs = append(errs, c.admission(shoot, stored, result)...)
		old, _ := stored.(*corev1beta1.Shoot)
		errs = append(errs, c.files(shoot, old)...)
	}
	if stored == nil {
		errs = append(errs, kind.Create(object, options)...)
	} else {
		errs = append(errs, kind.Update(object, stored, options)...)
	}
	return append(problems, fieldProblems(errs)...)
}

// change returns the stored object and the one that an apply of the manifest makes of it.
func (c *checker) change(kind validation.Kind, manifest, old map[string]any) (stored, object validation.Object, err error) {
	stored = kind.New()
	if _, err := unmarshal(old, stored); err != nil {
		return nil, nil, fmt.Errorf("read the old manifest: %w", err)
	}
	if stored.GetNamespace() == "" && kind.Namespaced {
		stored.SetNamespace(c.options.Namespace)
	}
	if stored.GetResourceVersion() == "" {
		stored.SetResourceVersion("1")
	}
	kind.SetDefaults(stored)
	object, err = apply(manifest, old, stored, kind.New)
	if err == nil && object.GetNamespace() == "" && kind.Namespaced {
		object.SetNamespace(c.options.Namespace)
	}
	return stored, object, err
}

// admission does what admission does with a Shoot that needs no more than the Shoot and its CloudProfile.
func (c *checker) admission(shoot *corev1beta1.Shoot, stored validation.Object, result *Result) field.ErrorList {
	errs := corev1beta1.ValidateDisjointShootNetworks(shoot.Spec.Networking)
	ref := shoot.Spec.CloudProfile
	if ref == nil || shoot.DeletionTimestamp != nil {
		return errs
	}
	profile, found := c.profiles[ref.Name]
	if !found || ref.Kind != corev1beta1.CloudProfileKind {
		result.Skipped = fmt.Sprintf("versions, images and machine types were not checked: %s %s is not among the manifests", ref.Kind, ref.Name)
		return errs
	}
	old, _ := stored.(*corev1beta1.Shoot)
	defaulting := versionclass.DefaultShoot(shoot, old, profile.versions, c.options.Now)
	errs = append(errs, defaulting...)
	if len(defaulting) == 0 {
		result.Warnings = append(result.Warnings, maintenance.Warnings(shoot, old, profile.versions, c.options.Now)...)
		errs = append(errs, versionclass.ValidateShootVersions(shoot, old, profile.versions, c.options.Now)...)
	}
	return append(errs, offer.Validate(shoot, old, profile.spec)...)
}

// other checks what is no kind of the garden: kinds of ours that live elsewhere strictly, but without rules.
func (c *checker) other(d document, result *Result) []Problem {
	gvk := schema.FromAPIVersionAndKind(result.APIVersion, result.Kind)
	if otherScheme.Recognizes(gvk) {
		_, problems := decode(d.object, func() runtime.Object {
			object, err := otherScheme.New(gvk)
			if err != nil {
				panic(err) // It was recognized.
			}
			return object
		})
		result.Skipped = "only the fields were checked: the rules of this kind are in its CRD"
		return problems
	}
	switch {
	case gvk.Kind == "" || gvk.Version == "":
		return []Problem{{Type: TypeUnknownKind, Message: "apiVersion and kind must be given"}}
	case ours(gvk.Group):
		return []Problem{{Type: TypeUnknownKind, Field: "kind", Value: result.Kind, Message: "there is no kind " + result.Kind + " in " + result.APIVersion}}
	}
	if gvk.Kind == "ConfigMap" && gvk.Group == "" {
		result.Skipped = "checked only with the Shoots that take a file of their API server from it"
		return nil
	}
	result.Skipped = "not checked: " + result.APIVersion + " is none of our groups"
	return nil
}

func ours(group string) bool {
	return group == extensionsv1alpha1.SchemeGroupVersion.Group || group == resourcesv1alpha1.GroupName ||
		slices.ContainsFunc(validation.Kinds, func(k validation.Kind) bool { return k.Group == group })
}

func fieldProblems(errs field.ErrorList) []Problem {
	var problems []Problem
	for _, e := range errs {
		p := Problem{Type: string(e.Type), Field: e.Field, Message: strings.TrimPrefix(e.Error(), e.Field+": ")}
		if !slices.ContainsFunc(problems, func(other Problem) bool {
			return other.Type == p.Type && other.Field == p.Field && other.Message == p.Message
		}) {
			problems = append(problems, p)
		}
	}
	return problems
}
