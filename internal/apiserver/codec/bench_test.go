package codec

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	libraryjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// BenchmarkEncodings gives what protobuf would win: a Pod in both encodings, and a Shoot of the same size in JSON.
// cpu-ns/op is what the process has used, which other processes on the machine change little.
func BenchmarkEncodings(b *testing.B) {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(corev1beta1.AddToScheme(scheme))
	factory := serializer.NewCodecFactory(scheme)
	for _, bc := range []struct {
		object  runtime.Object
		version schema.GroupVersion
		empty   func() runtime.Object
		media   []string
	}{
		{largePod(), corev1.SchemeGroupVersion, func() runtime.Object { return &corev1.Pod{} },
			[]string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}},
		{largeShoot(), corev1beta1.SchemeGroupVersion, func() runtime.Object { return &corev1beta1.Shoot{} },
			[]string{runtime.ContentTypeJSON}},
	} {
		for _, media := range bc.media {
			info, ok := runtime.SerializerInfoForMediaType(factory.SupportedMediaTypes(), media)
			if !ok {
				b.Fatalf("no serializer for %s", media)
			}
			encoder := factory.EncoderForVersion(info.Serializer, bc.version)
			data, err := runtime.Encode(encoder, bc.object)
			if err != nil {
				b.Fatal(err)
			}
			kind, encoding := fmt.Sprintf("%T", bc.object), media[strings.LastIndexAny(media, "/.")+1:]
			kind = kind[strings.LastIndex(kind, ".")+1:]
			b.Run(kind+"/"+encoding+"/encode", func(b *testing.B) {
				measure(b, len(data), func() error { _, err := runtime.Encode(encoder, bc.object); return err })
			})
			b.Run(kind+"/"+encoding+"/decode", func(b *testing.B) {
				measure(b, len(data), func() error { _, _, err := info.Serializer.Decode(data, nil, bc.empty()); return err })
			})
		}
	}
}

func measure(b *testing.B, size int, do func() error) {
	b.ReportAllocs()
	began := processorTime()
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime()-began)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(size), "bytes")
}

// processorTime of the process, in nanoseconds.
func processorTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// managed are the entries of two writers, as every object in a cluster has them.
func managed(apiVersion, fields string) []metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{
		Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiVersion, FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
	first, second := entry, entry
	first.Manager, second.Manager = "kubectl", "controller"
	return []metav1.ManagedFieldsEntry{first, second}
}

// fieldsOf is what a managedFields entry of an object with many leaves looks like.
func fieldsOf(leaves int) string {
	set := map[string]any{}
	for i := range leaves {
		set[fmt.Sprintf("f:field%d", i)] = map[string]any{"f:name": map[string]any{}, ".": map[string]any{}}
	}
	data, err := json.Marshal(map[string]any{"f:spec": set})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func objectMeta(apiVersion string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "a-name", Namespace: "garden-project", UID: "6f2c2e0a-3a7e-4a0e-9f0e-3c8a5d5f9c11", ResourceVersion: "123456",
		Generation:    7,
		Labels:        map[string]string{"app.kubernetes.io/name": "name", "example.com/team": "team"},
		Annotations:   map[string]string{"example.com/note": strings.Repeat("n", 200)},
		ManagedFields: managed(apiVersion, fieldsOf(25)),
	}
}

func largePod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: objectMeta("v1")}
	for i := range 6 {
		container := corev1.Container{
			Name: fmt.Sprintf("container-%d", i), Image: "registry.example.com/project/image:v1.2.3",
			Command: []string{"/program", "--flag=value", "--other=value"},
			Ports:   []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/config", ReadOnly: true}, {Name: "data", MountPath: "/var/lib/data"},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
			},
		}
		for j := range 4 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "some value"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}

func largeShoot() *corev1beta1.Shoot {
	shoot := &corev1beta1.Shoot{ObjectMeta: objectMeta("core.gardener.cloud/v1beta1")}
	shoot.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "profile"}
	shoot.Spec.Region, shoot.Spec.SeedName, shoot.Spec.Provider.Type = "region", ptr.To("seed"), "local"
	shoot.Spec.Kubernetes.Version = "1.36.3"
	shoot.Spec.Networking = &corev1beta1.Networking{
		Type: ptr.To("bridge"), Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16"),
		Nodes: ptr.To("10.250.0.0/16"),
	}
	for i := range 8 {
		shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, corev1beta1.Worker{
			Name: fmt.Sprintf("pool-%d", i), Minimum: 1, Maximum: 10, Zones: []string{"a", "b", "c"},
			Machine: corev1beta1.Machine{
				Type: "large", Architecture: ptr.To("amd64"),
				Image: &corev1beta1.ShootMachineImage{Name: "image", Version: ptr.To("1.1.0")},
			},
			Labels: map[string]string{"example.com/pool": "pool", "example.com/cost-center": "1234"},
			Taints: []corev1.Taint{{Key: "example.com/dedicated", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			Volume: &corev1beta1.Volume{Type: ptr.To("ssd"), VolumeSize: "50Gi"},
		})
	}
	shoot.Status.TechnicalID, shoot.Status.SeedName = "shoot--project--a-name", ptr.To("seed")
	for _, condition := range []string{
		"APIServerAvailable", "ControlPlaneHealthy", "EveryNodeReady", "SystemComponentsHealthy",
	} {
		shoot.Status.Conditions = append(shoot.Status.Conditions, corev1beta1.Condition{
			Type: corev1beta1.ConditionType(condition), Status: corev1beta1.ConditionTrue, Reason: "Checked",
			Message: "everything that was looked at is as it should be",
		})
	}
	return shoot
}

// BenchmarkJSON compares our JSON with the library's, on a Shoot as it was stored by 'hortus bench api'.
func BenchmarkJSON(b *testing.B) {
	scheme := testScheme()
	file, err := os.ReadFile("testdata/stored-shoot.json")
	if err != nil {
		b.Fatal(err)
	}
	shoot, _, err := newJSON(scheme, true).Decode(file, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	data, err := runtime.Encode(newJSON(scheme, false), shoot)
	if err != nil {
		b.Fatal(err)
	}
	for _, bc := range []struct {
		name string
		make func(strict bool) runtime.Serializer
	}{
		{"ours", func(strict bool) runtime.Serializer { return newJSON(scheme, strict) }},
		{"library", func(strict bool) runtime.Serializer {
			return libraryjson.NewSerializerWithOptions(quickMeta{}, scheme, scheme,
				libraryjson.SerializerOptions{Strict: strict, StreamingCollectionsEncoding: true})
		}},
	} {
		loose, strict := bc.make(false), bc.make(true)
		b.Run("read/"+bc.name, func(b *testing.B) {
			measure(b, len(data), func() error { _, _, err := loose.Decode(data, nil, nil); return err })
		})
		b.Run("read-strictly/"+bc.name, func(b *testing.B) {
			measure(b, len(data), func() error { _, _, err := strict.Decode(data, nil, nil); return err })
		})
		b.Run("write/"+bc.name, func(b *testing.B) {
			measure(b, len(data), func() error { return loose.Encode(shoot, io.Discard) })
		})
	}
}
