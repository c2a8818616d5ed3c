// Package test cleans up a real API server with a clock that moves.
package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/gardenlet/shoot/cleanup"
	"hortus.dev/hortus/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.WithCRDs(
		definition("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot", apiextensionsv1.NamespaceScoped),
		definition("snapshot.storage.k8s.io", "volumesnapshotcontents", "VolumeSnapshotContent",
			apiextensionsv1.ClusterScoped)))
}

// definition of a kind without a schema, which the clean-up keeps.
func definition(
	group, plural, kind string, scope apiextensionsv1.ResourceScope,
) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + group, Labels: map[string]string{"shoot.gardener.cloud/no-cleanup": "true"},
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: ptr.To(true),
					},
				},
			}},
		},
	}
}

const (
	finalizer = "example.com/nobody" // Nobody removes it.

	template = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}], restartPolicy: %s}}`
	selector = `selector: {matchLabels: {a: b}}`
)

// specs are objects of the kinds that are cleaned up, without their metadata.
var specs = map[string]string{
	"MutatingWebhookConfiguration":   `webhooks: []`,
	"ValidatingWebhookConfiguration": `webhooks: []`,
	"APIService": `spec: {group: grace.example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1,
  insecureSkipTLSVerify: true, service: {namespace: default, name: nobody}}`,
	"CustomResourceDefinition": `spec: {group: things.example.com, scope: Cluster, names: {plural: objects, kind: Thing},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}`,
	"CronJob":               `spec: {schedule: "0 0 * * *", jobTemplate: {spec: {template: ` + never + `}}}`,
	"DaemonSet":             `spec: {` + selector + `, template: ` + always + `}`,
	"Deployment":            `spec: {` + selector + `, template: ` + always + `}`,
	"Ingress":               `spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}`,
	"Job":                   `spec: {template: ` + never + `}`,
	"Pod":                   `spec: {containers: [{name: c, image: i}]}`,
	"ReplicaSet":            `spec: {` + selector + `, template: ` + always + `}`,
	"ReplicationController": `spec: {selector: {a: b}, template: ` + always + `}`,
	"Service":               `spec: {ports: [{port: 80}]}`,
	"StatefulSet":           `spec: {serviceName: s, ` + selector + `, template: ` + always + `}`,
	"PersistentVolumeClaim": `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}`,
	"VolumeSnapshot":        `spec: {}`,
	"VolumeSnapshotContent": `spec: {}`,
	"VolumeAttachment":      `spec: {attacher: example.com, nodeName: gone, source: {persistentVolumeName: v}}`,
}

var (
	never  = fmt.Sprintf(template, "Never")
	always = fmt.Sprintf(template, "Always")
)

// object of a kind with a finalizer. The kinds of the clean-up are cluster-scoped or allow the namespace default.
func object(t *testing.T, kind schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	spec, known := specs[kind.Kind]
	if !known {
		t.Fatalf("there is no object of kind %s to clean up", kind.Kind)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(spec), &o.Object); err != nil {
		t.Fatalf("%s: %v", kind.Kind, err)
	}
	o.SetGroupVersionKind(kind)
	o.SetFinalizers([]string{finalizer})
	switch kind.Kind {
	case "APIService":
		o.SetName("v1.grace.example.com")
	case "CustomResourceDefinition":
		o.SetName("objects.things.example.com")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "VolumeSnapshotContent", "VolumeAttachment":
		o.SetName("o")
	default:
		o.SetName("o")
		o.SetNamespace("default")
	}
	return o
}

// attachments stands for the clean-up of VolumeAttachments, which has no plan.
const attachments = "volume-attachments"

// documented are the steps of the clean-up, with the times after which they remove finalizers.
var documented = map[string]struct {
	kinds      []string
	finalize   time.Duration
	annotation string // It may shorten the time.
}{
	cleanup.Webhooks: {
		[]string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, 5 * time.Minute,
		"shoot.gardener.cloud/cleanup-webhooks-finalize-grace-period-seconds",
	},
	cleanup.ExtendedAPIs: {
		[]string{"APIService", "CustomResourceDefinition"}, time.Hour,
		"shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds",
	},
	cleanup.KubernetesResources: {
		[]string{
			"CronJob", "DaemonSet", "Deployment", "Ingress", "Job", "PersistentVolumeClaim", "Pod", "ReplicaSet",
			"ReplicationController", "Service", "StatefulSet",
		}, 5 * time.Minute,
		"shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds",
	},
	cleanup.VolumeSnapshots: {
		[]string{"VolumeSnapshot", "VolumeSnapshotContent"}, time.Hour,
		"shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds",
	},
	attachments: {[]string{"VolumeAttachment"}, 5 * time.Minute, ""},
}

// pass cleans up one kind of a step.
type pass func(ctx context.Context, now time.Time) ([]string, error)

// passes are those of a step, by kind.
func passes(
	t *testing.T, c client.Client, step string, annotations map[string]string,
) map[schema.GroupVersionKind]pass {
	t.Helper()
	if step == attachments {
		kind := schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "VolumeAttachment"}
		return map[schema.GroupVersionKind]pass{kind: func(ctx context.Context, now time.Time) ([]string, error) {
			return cleanup.RunLostAttachments(ctx, c, now)
		}}
	}
	plan, planned, err := cleanup.Plan(step, annotations)
	if err != nil || !planned {
		t.Fatalf("Plan() = %t, %v", planned, err)
	}
	out := map[schema.GroupVersionKind]pass{}
	for _, kind := range plan.Kinds {
		one := plan
		one.Kinds = []schema.GroupVersionKind{kind}
		out[kind] = func(ctx context.Context, now time.Time) ([]string, error) { return cleanup.Run(ctx, c, one, now) }
	}
	return out
}

// TestFinalizersStayForTheirGracePeriod has an object of each kind that is cleaned up, whose finalizer nobody removes:
// the clean-up does so, one moment after the documented time, or the shorter one in the annotation of the Shoot.
func TestFinalizersStayForTheirGracePeriod(t *testing.T) {
	e := env.Shared(t)
	for step, doc := range documented {
		for value, want := range map[string]time.Duration{
			"-": doc.finalize, "0": 0, "60": time.Minute, "299": 299 * time.Second, "7200": doc.finalize,
		} {
			annotations := map[string]string{}
			switch {
			case value != "-" && doc.annotation == "":
				continue
			case value != "-":
				annotations[doc.annotation] = value
			}
			all := passes(t, e.Client, step, annotations)
			var names []string
			for kind, clean := range all {
				names = append(names, kind.Kind)
				t.Run(fmt.Sprintf("%s %s %s", step, kind.Kind, value), func(t *testing.T) {
					o := object(t, kind)
					e.Create(t, o)
					inDeletion := func(now time.Time) time.Time {
						t.Helper()
						left, err := clean(t.Context(), now)
						if err != nil {
							t.Fatal(err)
						}
						name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
						if diff := cmp.Diff([]string{kind.Kind + " " + name}, left); diff != "" {
							t.Fatalf("remaining objects (-want +got):\n%s", diff)
						}
						if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
							t.Fatal(err)
						}
						if !slices.Contains(o.GetFinalizers(), finalizer) || o.GetDeletionTimestamp() == nil {
							t.Fatalf("it has finalizers %q and is in deletion since %v", o.GetFinalizers(), o.GetDeletionTimestamp())
						}
						return o.GetDeletionTimestamp().Time
					}
					since := inDeletion(time.Now())
					inDeletion(since)
					inDeletion(since.Add(want))
					if left, err := clean(t.Context(), since.Add(want+time.Nanosecond)); err != nil || len(left) > 0 {
						t.Errorf("after %s there are %q (%v)", want, left, err)
					}
					env.Eventually(t, "the end of "+o.GetName(), func() (bool, error) { // Definitions have a controller.
						err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
						return apierrors.IsNotFound(err), err
					})
				})
			}
			slices.Sort(names)
			if diff := cmp.Diff(doc.kinds, names); diff != "" {
				t.Errorf("kinds of step %s (-documented +planned):\n%s", step, diff)
			}
		}
	}
}

// TestPodsEndWithinTheGracePeriodOfTheStep has pods on nodes, which have grace periods of their own.
func TestPodsEndWithinTheGracePeriodOfTheStep(t *testing.T) {
	e := env.Shared(t)
	const annotation = "shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds"
	const gone = -1
	for name, tc := range map[string]struct {
		annotations map[string]string
		own, want   int64
	}{
		"shorter than that of the step": {own: 30, want: 30},
		"longer":                        {own: 3600, want: 300},
		"longer than the annotation":    {annotations: map[string]string{annotation: "60"}, own: 90, want: 60},
		"none, and no finalizers any more, by the annotation": {
			annotations: map[string]string{annotation: "0"}, own: 90, want: gone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := corev1.SchemeGroupVersion.WithKind("Pod")
			clean := passes(t, e.Client, cleanup.KubernetesResources, tc.annotations)[kind]
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: env.Name("p"), Finalizers: []string{finalizer}},
				Spec: corev1.PodSpec{
					NodeName: "n", TerminationGracePeriodSeconds: &tc.own,
					Containers: []corev1.Container{{Name: "c", Image: "i"}},
				},
			}
			e.Create(t, pod)
			for range 2 { // The first pass leaves the period to the pod.
				if _, err := clean(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
			if tc.want == gone && apierrors.IsNotFound(err) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(pod.DeletionGracePeriodSeconds, 0); got != tc.want {
				t.Errorf("the grace period is %d s, want %d", got, tc.want)
			}
			if diff := cmp.Diff([]string{finalizer}, pod.Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSnapshotsAreReleasedAfterTheirGracePeriod has a VolumeSnapshotContent whose driver waits for an annotation before
// it deletes the snapshot at the provider.
func TestSnapshotsAreReleasedAfterTheirGracePeriod(t *testing.T) {
	e := env.Shared(t)
	const beingDeleted, beingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
		"snapshot.storage.kubernetes.io/volumesnapshot-being-created"
	for value, grace := range map[string]time.Duration{"-": 5 * time.Minute, "60": 30 * time.Second} {
		t.Run(value, func(t *testing.T) {
			annotations := map[string]string{}
			if value != "-" {
				annotations[documented[cleanup.VolumeSnapshots].annotation] = value
			}
			kind := schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContent"}
			clean := passes(t, e.Client, cleanup.VolumeSnapshots, annotations)[kind]
			o := object(t, kind)
			o.SetAnnotations(map[string]string{beingCreated: "yes"})
			e.Create(t, o)
			has := func(now time.Time, want map[string]string) {
				t.Helper()
				if _, err := clean(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
				if got := o.GetAnnotations(); !maps.Equal(got, want) {
					t.Errorf("annotations are %v, want %v", got, want)
				}
			}
			has(time.Now(), map[string]string{beingCreated: "yes"})
			since := o.GetDeletionTimestamp().Time
			has(since.Add(grace-time.Nanosecond), map[string]string{beingCreated: "yes"})
			has(since.Add(grace), map[string]string{beingDeleted: "yes"})
		})
	}
}
