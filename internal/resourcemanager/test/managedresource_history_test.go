package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	component "hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/test/sim"
)

// widgetKind has an API in the target at some times only.
var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

const (
	shared        = "shared"           // An object that moves from one ManagedResource to another.
	ofOthers      = "of-others"        // An object that is in no ManagedResource.
	holdFinalizer = "example.com/hold" // A finalizer of others.
)

// manifest is an object in a Secret: a Widget without a namespace, or a ConfigMap.
type manifest struct {
	name, value string
	part        int // Which of the two Secrets has it.
	labels      int // Bits: whether it has the labels of labelKeys.
}

var labelKeys = []string{"one", "two"}

func (m manifest) isWidget() bool { return strings.HasSuffix(m.name, "-widget") }

func (m manifest) document() string {
	var labels, annotations []string
	for i, key := range labelKeys {
		if m.labels>>i&1 == 1 {
			labels = append(labels, key+": x")
		}
	}
	if strings.HasSuffix(m.name, "-kept") {
		annotations = append(annotations, resourcesv1alpha1.AnnotationKeepObject+`: "true"`)
	}
	metadata := fmt.Sprintf("name: %s, labels: {%s}, annotations: {%s}", m.name, strings.Join(labels, ", "),
		strings.Join(annotations, ", "))
	if m.isWidget() {
		return fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {%s}, spec: {value: %q}}\n---\n",
			metadata, m.value)
	}
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, %s}, data: {value: %q}}\n"+
		"---\n", metadata, m.value)
}

// managed is one ManagedResource as it is wanted.
type managed struct {
	name             string
	wanted, previous map[string]manifest
	there            bool // It exists and is not being deleted.
	kept             bool // It was deleted, and its objects were to be kept.
	injects          bool // It adds a label to all objects.
	lost             bool // Its first Secret does not exist.
	broken           bool // The document of its second Secret cannot be decoded.
	ignored          bool
	steady           types.UID // Of the object that is always wanted.
}

// hides reports whether an object cannot be decoded.
func (m *managed) hides(o manifest) bool { return m.broken && o.part == 1 }

func (m *managed) steadyName() string { return m.name + "-steady" }

// history is what happens to ManagedResources.
type history struct {
	w           *sim.World
	seed, shoot *sim.Cluster

	all       []*managed
	owner     *managed             // Of the shared object.
	widgets   bool                 // Widgets have an API.
	left      map[string]bool      // Objects that a deleted ManagedResource has kept.
	kept      map[string]types.UID // Objects that the controller may not delete.
	disturbed map[string]bool      // Objects that others have changed, or that may be replaced.
}

func newHistory(w *sim.World, seed, shoot *sim.Cluster) *history {
	h := &history{w: w, seed: seed, shoot: shoot, left: map[string]bool{}, kept: map[string]types.UID{},
		disturbed: map[string]bool{shared: true}}
	shoot.AddNamespaces("default")
	shoot.Undefine(widgetKind)
	foreign := configMap(ofOthers)
	shoot.Add(foreign)
	h.kept[ofOthers] = foreign.UID
	for _, name := range []string{"a", "b"} {
		m := &managed{name: name, wanted: map[string]manifest{}}
		m.wanted[m.steadyName()] = manifest{name: m.steadyName(), value: "x", part: 1}
		m.previous = maps.Clone(m.wanted)
		h.all = append(h.all, m)
		w.Change("make "+name, seed, act(func() error { return h.create(m) }))
	}
	h.owner = h.all[0]
	return h
}

func act(change func() error) func(context.Context, client.Client) error {
	return func(context.Context, client.Client) error { return change() }
}

func (h *history) find(name string) *managed {
	i := slices.IndexFunc(h.all, func(m *managed) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return h.all[i]
}

// wanted has the objects that the Secrets of a ManagedResource name.
func (h *history) wanted(m *managed) map[string]manifest {
	out := maps.Clone(m.wanted)
	if h.owner == m {
		out[shared] = manifest{name: shared, value: m.name}
	}
	return out
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
}

func (m *managed) object() *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.name}}
}

func (h *history) secrets(m *managed) (out []*corev1.Secret) {
	for part := range 2 {
		text := ""
		wanted := h.wanted(m)
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if wanted[name].part == part {
				text += wanted[name].document()
			}
		}
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(m.name, part)}}
		s.Data = map[string][]byte{"objects": []byte(text)}
		if m.broken && part == 1 {
			s.Data = map[string][]byte{"broken": []byte("{\n")}
		}
		out = append(out, s)
	}
	return out
}

// write writes Secrets as they are wanted.
func (h *history) write(all ...*managed) error {
	for _, m := range all {
		for part, want := range h.secrets(m) {
			s := want.DeepCopy()
			exists, wanted := h.seed.Exists(s), !m.lost || part > 0
			var err error
			switch {
			case !exists && wanted:
				err = h.seed.Create(context.Background(), want)
			case exists && wanted:
				s.Data = want.Data
				err = h.seed.Update(context.Background(), s)
			case exists:
				err = h.seed.Delete(context.Background(), s)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *history) create(m *managed) error {
	if o := m.object(); h.seed.Exists(o) {
		return nil // Its deletion takes its time.
	}
	m.there, m.ignored = true, false
	o := m.object()
	for _, s := range h.secrets(m) {
		o.Spec.SecretRefs = append(o.Spec.SecretRefs, corev1.LocalObjectReference{Name: s.Name})
	}
	if err := h.seed.Create(context.Background(), o); err != nil {
		return err
	}
	if err := h.write(m); err != nil {
		return err
	}
	return h.edit(m)
}

// edit writes the ManagedResource as it is wanted.
func (h *history) edit(m *managed) error {
	if !m.there {
		return nil
	}
	o := m.object()
	return h.seed.Edit(o, func() {
		o.Annotations, o.Spec.InjectLabels = nil, nil
		if m.ignored {
			o.Annotations = map[string]string{resourcesv1alpha1.AnnotationIgnore: "true"}
		}
		if m.injects {
			o.Spec.InjectLabels = map[string]string{"injected": "x"}
		}
	})
}

func (h *history) remove(m *managed, keep bool) error {
	if !m.there {
		return nil
	}
	o := m.object()
	if err := h.seed.Edit(o, func() { o.Spec.KeepObjects = ptr.To(keep) }); err != nil {
		return err
	}
	m.there = false
	if keep {
		m.kept = true
	} else {
		m.steady = ""
	}
	return h.seed.Delete(context.Background(), o)
}

func (h *history) toggleWidgets() error {
	if h.widgets = !h.widgets; h.widgets {
		h.shoot.Define(widgetKind)
		return nil
	}
	for _, m := range h.all {
		h.disturbed[m.name+"-widget"] = true
	}
	h.shoot.Undefine(widgetKind)
	return nil
}

func (h *history) repair() error {
	if !h.widgets {
		if err := h.toggleWidgets(); err != nil {
			return err
		}
	}
	for _, m := range h.all {
		m.lost, m.broken, m.ignored = false, false, false
		if err := h.write(m); err != nil {
			return err
		}
		if err := h.edit(m); err != nil {
			return err
		}
	}
	return nil
}

// disturb is what others do to an object, if there is one.
func (h *history) disturb(which, kind int) error {
	objects, err := h.objects()
	if err != nil {
		return err
	}
	maps.DeleteFunc(objects, func(name string, _ client.Object) bool {
		return h.kept[name] != "" || strings.HasSuffix(name, "-steady")
	})
	if len(objects) == 0 {
		return nil
	}
	name := slices.Sorted(maps.Keys(objects))[which%len(objects)]
	o := objects[name]
	h.disturbed[name] = true
	switch kind {
	case 0:
		return h.shoot.Delete(context.Background(), o)
	case 1:
		o.SetLabels(nil)
	case 2:
		o.SetAnnotations(nil)
	case 3:
		o.SetFinalizers([]string{holdFinalizer})
	case 4:
		o.SetLabels(map[string]string{"foreign": "x"})
	default:
		if m, ok := o.(*corev1.ConfigMap); ok {
			m.Data = nil
		}
	}
	return h.shoot.Update(context.Background(), o)
}

// finalize removes the finalizers of others from deleted objects.
func (h *history) finalize(ctx context.Context, c client.Client) error {
	objects, err := h.objects()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if o := objects[name]; o.GetDeletionTimestamp() != nil {
			o.SetFinalizers(nil)
			if err := c.Update(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// objects are all objects of the target, by name.
func (h *history) objects() (map[string]client.Object, error) {
	out := map[string]client.Object{}
	configs := &corev1.ConfigMapList{}
	if err := h.shoot.List(context.Background(), configs); err != nil {
		return nil, err
	}
	for i := range configs.Items {
		out[configs.Items[i].Name] = &configs.Items[i]
	}
	widgets := &unstructured.UnstructuredList{}
	widgets.SetGroupVersionKind(widgetKind)
	if err := h.shoot.List(context.Background(), widgets); err != nil {
		return nil, err
	}
	for i := range widgets.Items {
		out[widgets.Items[i].GetName()] = &widgets.Items[i]
	}
	return out, nil
}

// read returns the ManagedResource, nil if it does not exist.
func (h *history) read(m *managed) (*resourcesv1alpha1.ManagedResource, error) {
	o := m.object()
	err := h.seed.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o, nil
}

// originOf returns the name of the ManagedResource that an object says to be of.
func originOf(o client.Object) string {
	return strings.TrimPrefix(o.GetAnnotations()[resourcesv1alpha1.AnnotationOrigin], namespace+"/")
}

// of returns the ManagedResource that an object belongs to, whether or not the object says so; nil if there is none.
func (h *history) of(o client.Object) *managed {
	name, _, _ := strings.Cut(o.GetName(), "-")
	return h.find(cmp.Or(originOf(o), name))
}

// mayBeLeft reports whether an object may be in the target though no ManagedResource lists it.
func (h *history) mayBeLeft(name string, o client.Object) bool {
	return h.left[name] || h.kept[name] != "" || h.of(o).kept
}

// allListed: who comes later finds everything that was applied in the list.
func (h *history) allListed() error {
	objects, err := h.objects()
	if err != nil {
		return err
	}
	for _, m := range h.all {
		mr, err := h.read(m)
		if err != nil {
			return err
		}
		for name, o := range objects {
			if originOf(o) != m.name || h.mayBeLeft(name, o) {
				continue
			}
			if mr == nil || !slices.ContainsFunc(mr.Status.Resources, func(r resourcesv1alpha1.ObjectReference) bool {
				return r.Name == name && r.Namespace == o.GetNamespace()
			}) {
				return fmt.Errorf("%s is not listed by %s", name, m.name)
			}
		}
	}
	return nil
}

// conditionsAreTrue: if everything was applied, it exists, unless others have changed it since.
func (h *history) conditionsAreTrue() error {
	objects, err := h.objects()
	if err != nil {
		return err
	}
	for _, m := range h.all {
		mr, err := h.read(m)
		if err != nil {
			return err
		}
		if mr == nil || !m.there || reasonOf(mr, "ResourcesApplied") != "True ApplySucceeded" || !h.observed(m, mr) {
			continue
		}
		for name, want := range h.wanted(m) {
			if o := objects[name]; !h.disturbed[name] && (o == nil || valueOf(o) != want.value) {
				return fmt.Errorf("%s reports that %s is applied: %v", m.name, name, o)
			}
		}
	}
	return nil
}

// objectsStay: objects that are to be kept or are always wanted are neither deleted nor replaced.
func (h *history) objectsStay() error {
	objects, err := h.objects()
	if err != nil {
		return err
	}
	for name, o := range objects {
		if o.GetAnnotations()[resourcesv1alpha1.AnnotationKeepObject] != "" && h.kept[name] == "" {
			h.kept[name] = o.GetUID()
		}
	}
	for _, m := range h.all {
		o := objects[m.steadyName()]
		if m.there && m.steady == "" && o != nil {
			m.steady = o.GetUID()
		}
		if m.steady != "" && (o == nil || o.GetUID() != m.steady) {
			return fmt.Errorf("%s is not there any more", m.steadyName())
		}
	}
	for name, uid := range h.kept {
		if o := objects[name]; o == nil || o.GetUID() != uid {
			return fmt.Errorf("%s is not there any more", name)
		}
	}
	return nil
}

func reasonOf(mr *resourcesv1alpha1.ManagedResource, condition string) string {
	for _, c := range mr.Status.Conditions {
		if string(c.Type) == condition {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// appliedReason is what the condition ResourcesApplied has to be at rest.
func (h *history) appliedReason(m *managed) string {
	widget, wanted := m.wanted[m.name+"-widget"]
	switch {
	case m.ignored:
		return "True ManagedResourceIgnored"
	case m.lost:
		return "False CannotReadSecret"
	case wanted && !h.widgets && !m.hides(widget):
		return "False ApplyFailed"
	case m.broken:
		return "False DecodingFailed"
	}
	return "True ApplySucceeded"
}

// observed reports whether the status is of the newest Secrets and the newest generation.
func (h *history) observed(m *managed, mr *resourcesv1alpha1.ManagedResource) bool {
	return !m.lost && mr.Status.ObservedGeneration == mr.Generation &&
		ptr.Deref(mr.Status.SecretsDataChecksum, "") == component.Checksum(h.secrets(m)...)
}

func valueOf(o client.Object) string {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return o.Data["value"]
	case *unstructured.Unstructured:
		value, _, _ := unstructured.NestedString(o.Object, "spec", "value")
		return value
	}
	return ""
}

// compare compares an object with its manifest.
func (h *history) compare(m *managed, want manifest, o client.Object) error {
	if o == nil {
		return errors.New("does not exist")
	}
	if origin := originOf(o); origin != m.name || valueOf(o) != want.value {
		return fmt.Errorf("is %q of %q", valueOf(o), origin)
	}
	if h.kept[want.name] != "" || h.left[want.name] || m.kept || want.name == shared {
		return nil // Nobody knows the labels that it had before.
	}
	labels := map[string]bool{"injected": m.injects, resourcesv1alpha1.LabelManagedBy: true}
	for i, key := range labelKeys {
		labels[key] = want.labels>>i&1 == 1
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, has := o.GetLabels()[key]; has != labels[key] {
			return fmt.Errorf("has label %s: %v, want %v", key, has, labels[key])
		}
	}
	return nil
}
