package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/api/validation"
	"hortus.dev/hortus/internal/apiserverfiles"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/cloudprofile/offer"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/manifest"
)

// typeNoOldObject is the type of the problem that the old manifests lack the object. Package manifest and the rules
// define all other types.
const typeNoOldObject = "NoOldObject"

// Result is the result for one manifest.
type Result struct {
	File       string             `json:"file"`
	Line       int                `json:"line"`
	APIVersion string             `json:"apiVersion,omitempty"`
	Kind       string             `json:"kind,omitempty"`
	Namespace  string             `json:"namespace,omitempty"`
	Name       string             `json:"name,omitempty"`
	Valid      bool               `json:"valid"`
	Problems   []manifest.Problem `json:"problems,omitempty"`
	Warnings   []string           `json:"warnings,omitempty"`
	// Skipped is the reason why a manifest was not checked, or not completely.
	Skipped string `json:"skipped,omitempty"`
}

// Options are the inputs of checks in addition to the manifests.
type Options struct {
	Features  corev1beta1.Features
	Now       time.Time
	Namespace string // For objects without one.
	Update    bool   // Every object must be among the old manifests.
}

// document is a manifest with its fields.
type document struct {
	*manifest.Object
	fields map[string]any
}

func newDocument(object *manifest.Object) document { return document{object, object.Fields()} }

// checker checks manifests, with the CloudProfiles and ConfigMaps among them.
type checker struct {
	options  Options
	profiles map[string]profile // CloudProfiles by name.
	// configMaps are the data of ConfigMaps by key, if they contain files of API servers.
	configMaps map[string]map[string]string
	old        map[string]document
}

// profile is a CloudProfile in the two forms that rules need.
type profile struct {
	spec     *corev1beta1.CloudProfileSpec
	versions *cloudprofile.Profile
}

// check checks all documents. old are the stored objects, if the documents are updates.
func check(documents, old []document, options Options) []Result {
	c := checker{
		options: options, profiles: map[string]profile{}, configMaps: map[string]map[string]string{},
		old: map[string]document{},
	}
	for _, d := range old {
		c.old[c.keyOf(d)] = d
	}
	for _, list := range [][]document{old, documents} { // New ones take precedence.
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

func (c *checker) keyOf(d document) string {
	return c.key(d.GroupVersionKind().GroupKind(), d.Namespace, d.Name)
}

func (c *checker) key(kind schema.GroupKind, namespace, name string) string {
	return strings.Join([]string{kind.String(), cmp.Or(namespace, c.options.Namespace), name}, " ")
}

// addProfile stores a CloudProfile for the Shoots that use it, unless it is invalid.
func (c *checker) addProfile(d document) {
	if d.GroupVersionKind() != corev1beta1.SchemeGroupVersion.WithKind(corev1beta1.CloudProfileKind) {
		return
	}
	read := &corev1beta1.CloudProfile{}
	if manifest.Unmarshal(d.fields, read) != nil {
		return
	}
	corev1beta1.SetDefaultsCloudProfile(read)
	if versions, err := cloudprofile.Compile(read.Name, &read.Spec); err == nil {
		c.profiles[read.Name] = profile{&read.Spec, versions}
	}
}

// addConfigMap stores a ConfigMap that Shoots may refer to.
func (c *checker) addConfigMap(d document) {
	if d.GroupVersionKind() != configMapKind {
		return
	}
	configMap := &corev1.ConfigMap{}
	if manifest.Unmarshal(d.fields, configMap) == nil {
		c.configMaps[c.keyOf(d)] = configMap.Data
	}
}

// files checks the files of a Shoot's API server whose ConfigMaps are among the manifests.
func (c *checker) files(shoot, old *corev1beta1.Shoot) field.ErrorList {
	var errs field.ErrorList
	for _, file := range apiserverfiles.Changed(shoot, old) {
		if data, found := c.configMaps[c.key(configMapKind.GroupKind(), shoot.Namespace, file.ConfigMap)]; found {
			errs = append(errs, file.Validate(data)...)
		}
	}
	return errs
}

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func (c *checker) document(d document) Result {
	result := Result{
		File: d.File, Line: d.Line(""), APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name,
	}
	var problems []manifest.Problem
	if d.Parsed() {
		problems = c.object(d, &result)
	}
	// Duplicate fields are found in the text; the decoder sees only one of them.
	result.Problems = append(slices.Clone(d.Problems), problems...)
	for i := range result.Problems {
		if result.Problems[i].Line == 0 {
			result.Problems[i].Line = d.Line(result.Problems[i].Field)
		}
	}
	slices.SortStableFunc(result.Problems, func(a, b manifest.Problem) int { return a.Line - b.Line })
	result.Valid = len(result.Problems) == 0
	return result
}

func (c *checker) object(d document, result *Result) []manifest.Problem {
	kind, ok := validation.Find(d.GroupVersionKind())
	if !ok {
		return c.other(d, result)
	}
	object, problems := manifest.Decode(d.Object, kind.New)
	if object.GetNamespace() == "" && kind.Namespaced {
		object.SetNamespace(c.options.Namespace)
		result.Namespace = c.options.Namespace
	}
	options := validation.Options{Features: c.options.Features, Now: c.options.Now, BeforeAdmission: true}

	var stored validation.Object
	if c.options.Update {
		before, found := c.old[c.keyOf(d)]
		if !found {
			return append(problems, manifest.Problem{Type: typeNoOldObject, Message: "is not among the old manifests"})
		}
		var err error
		if stored, object, err = c.change(kind, d.Fields(), before.fields); err != nil {
			return append(problems, manifest.Problem{Type: manifest.TypeMalformed, Message: err.Error()})
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

// change returns the stored object and the object after an apply of the manifest.
func (c *checker) change(
	kind validation.Kind, fields, old map[string]any,
) (stored, object validation.Object, err error) {
	stored = kind.New()
	if err := manifest.Unmarshal(old, stored); err != nil {
		return nil, nil, fmt.Errorf("read the old manifest: %w", err)
	}
	if stored.GetNamespace() == "" && kind.Namespaced {
		stored.SetNamespace(c.options.Namespace)
	}
	if stored.GetResourceVersion() == "" {
		stored.SetResourceVersion("1")
	}
	kind.SetDefaults(stored)
	object, err = apply(fields, old, stored, kind.New)
	if err == nil && object.GetNamespace() == "" && kind.Namespaced {
		object.SetNamespace(c.options.Namespace)
	}
	return stored, object, err
}

// admission runs the checks of admission on a Shoot that need only the Shoot and its CloudProfile.
func (c *checker) admission(shoot *corev1beta1.Shoot, stored validation.Object, result *Result) field.ErrorList {
	errs := corev1beta1.ValidateDisjointShootNetworks(shoot.Spec.Networking)
	ref := shoot.Spec.CloudProfile
	if ref == nil || shoot.DeletionTimestamp != nil {
		return errs
	}
	profile, found := c.profiles[ref.Name]
	if !found || ref.Kind != corev1beta1.CloudProfileKind {
		result.Skipped = fmt.Sprintf("versions, images and machine types were not checked: %s %s is not among the manifests",
			ref.Kind, ref.Name)
		return errs
	}
	old, _ := stored.(*corev1beta1.Shoot)
	defaulting := cloudprofile.DefaultShoot(shoot, old, profile.versions, c.options.Now)
	errs = append(errs, defaulting...)
	if len(defaulting) == 0 {
		result.Warnings = append(result.Warnings, maintenance.Warnings(shoot, old, profile.versions, c.options.Now)...)
		errs = append(errs, cloudprofile.ValidateShootVersions(shoot, old, profile.versions, c.options.Now)...)
	}
	return append(errs, offer.Validate(shoot, old, profile.spec)...)
}

// other checks objects that are not of the garden's kinds: for our other kinds only whether fields are known and have
// the right type.
func (c *checker) other(d document, result *Result) []manifest.Problem {
	gvk := d.GroupVersionKind()
	if manifest.CRDs.Recognizes(gvk) {
		_, problems := manifest.Decode(d.Object, func() runtime.Object {
			object, err := manifest.CRDs.New(gvk)
			if err != nil {
				panic(err) // The kind is recognized.
			}
			return object
		})
		result.Skipped = "only the fields were checked: the rules of this kind are in its CRD"
		return problems
	}
	if problem, unknown := d.UnknownKind(); unknown {
		return []manifest.Problem{problem}
	}
	if gvk == configMapKind {
		result.Skipped = "checked only with the Shoots that take a file of their API server from it"
		return nil
	}
	result.Skipped = "not checked: " + result.APIVersion + " is none of our groups"
	return nil
}

func fieldProblems(errs field.ErrorList) []manifest.Problem {
	var problems []manifest.Problem
	for _, e := range errs {
		p := manifest.Problem{Type: string(e.Type), Field: e.Field, Message: strings.TrimPrefix(e.Error(), e.Field+": ")}
		if !slices.ContainsFunc(problems, func(other manifest.Problem) bool {
			return other.Type == p.Type && other.Field == p.Field && other.Message == p.Message
		}) {
			problems = append(problems, p)
		}
	}
	return problems
}
