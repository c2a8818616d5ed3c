package provider_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension/conformance"
	"hortus.dev/hortus/local/cloud"
)

func (l *landscape) network() *extensionsv1alpha1.Network {
	return &extensionsv1alpha1.Network{ObjectMeta: l.meta("s"), Spec: extensionsv1alpha1.NetworkSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "bridge"}, PodCIDR: "100.96.0.0/16", ServiceCIDR: "100.64.0.0/16",
	}}
}

func (l *landscape) containerRuntime() *extensionsv1alpha1.ContainerRuntime {
	return &extensionsv1alpha1.ContainerRuntime{
		ObjectMeta: l.meta("gvisor-pool"), Spec: extensionsv1alpha1.ContainerRuntimeSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "gvisor"},
			BinaryPath:  extensionsv1alpha1.ContainerRuntimeBinaryPath,
			WorkerPool: extensionsv1alpha1.ContainerRuntimeWorkerPool{
				Name:     "pool",
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{"worker.gardener.cloud/pool": "pool"}},
			},
		},
	}
}

func (l *landscape) controlPlane() *extensionsv1alpha1.ControlPlane {
	return &extensionsv1alpha1.ControlPlane{ObjectMeta: l.meta("s"), Spec: extensionsv1alpha1.ControlPlaneSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", SecretRef: l.secretRef,
	}}
}

func (l *landscape) dnsRecord() *extensionsv1alpha1.DNSRecord {
	return &extensionsv1alpha1.DNSRecord{ObjectMeta: l.meta("s-internal"), Spec: extensionsv1alpha1.DNSRecordSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, SecretRef: l.secretRef,
		Name: "api." + l.namespace + ".internal.local.hortus.dev", RecordType: extensionsv1alpha1.DNSRecordTypeA,
		Values: []string{"198.18.8.1"},
	}}
}

func (l *landscape) bastion() *extensionsv1alpha1.Bastion {
	return &extensionsv1alpha1.Bastion{ObjectMeta: l.meta("cli-1"), Spec: extensionsv1alpha1.BastionSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, UserData: []byte("#!/bin/sh\n"),
		Ingress: []extensionsv1alpha1.BastionIngressPolicy{{IPBlock: networkingv1.IPBlock{CIDR: "192.0.2.7/32"}}},
	}}
}

// makeNetwork makes what an Infrastructure makes.
func (l *landscape) makeNetwork(t *testing.T) {
	t.Helper()
	if _, err := l.cloud.Client.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: l.namespace}); err != nil {
		t.Fatal(err)
	}
}

func TestKindsConform(t *testing.T) {
	seed := startLandscape(t)
	for name, tc := range map[string]struct {
		make      func(*landscape) extensionsv1alpha1.Object
		finalizer string
		change    func(extensionsv1alpha1.Object)
	}{
		"Infrastructure": {
			make: func(l *landscape) extensionsv1alpha1.Object { return l.infrastructure() }, finalizer: "infrastructure",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.Infrastructure).Spec.SSHPublicKey = []byte("x")
			},
		},
		"ControlPlane": {
			make: func(l *landscape) extensionsv1alpha1.Object { return l.controlPlane() }, finalizer: "controlplane",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.ControlPlane).Spec.SecretRef.Name = "other"
			},
		},
		"Network": {
			make: func(l *landscape) extensionsv1alpha1.Object { return l.network() }, finalizer: "network",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.Network).Spec.IPFamilies = []extensionsv1alpha1.IPFamily{extensionsv1alpha1.IPFamilyIPv4}
			},
		},
		"ContainerRuntime": {
			make:      func(l *landscape) extensionsv1alpha1.Object { return l.containerRuntime() },
			finalizer: "containerruntime",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.ContainerRuntime).Spec.BinaryPath = "/other"
			},
		},
		"OperatingSystemConfig": {
			make: func(l *landscape) extensionsv1alpha1.Object { return l.osc() }, finalizer: "operatingsystemconfigs",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.OperatingSystemConfig).Spec.Units = []extensionsv1alpha1.Unit{{Name: "x.service"}}
			},
		},
		"DNSRecord": {
			make: func(l *landscape) extensionsv1alpha1.Object { return l.dnsRecord() }, finalizer: "dnsrecord",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.DNSRecord).Spec.Values = []string{"198.18.8.2"}
			},
		},
		"Bastion": {
			make: func(l *landscape) extensionsv1alpha1.Object { return l.bastion() }, finalizer: "bastion",
			change: func(o extensionsv1alpha1.Object) {
				o.(*extensionsv1alpha1.Bastion).Spec.Ingress[0].IPBlock.CIDR = "192.0.2.8/32"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := seed.forShoot(t)
			if name == "Bastion" {
				l.makeNetwork(t)
			}
			conformance.Run(t, conformance.Target{
				Client: l.Client, Namespace: l.namespace, Finalizer: "extensions.gardener.cloud/" + tc.finalizer, Change: tc.change,
				New: func() extensionsv1alpha1.Object { return tc.make(l) },
			})
		})
	}
}

func TestKindsDoTheirWork(t *testing.T) {
	l := startLandscape(t)

	infra := l.infrastructure()
	l.request(t, infra, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, infra)
	networks, err := l.cloud.Client.ListNetworks(t.Context(), cloud.Filter{Name: l.namespace})
	if err != nil || len(networks) != 1 {
		t.Fatalf("networks are %v, %v, want one", networks, err)
	}
	if got := infra.Status.NodesCIDR; got == nil || *got != networks[0].CIDR {
		t.Errorf("nodesCIDR is %v, want %s", got, networks[0].CIDR)
	}

	record := l.dnsRecord()
	l.request(t, record, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, record)
	records, err := l.cloud.Client.ListDNSRecords(t.Context(), cloud.Filter{Name: record.Spec.Name})
	if err != nil || len(records) != 1 {
		t.Fatalf("records are %v, %v, want one", records, err)
	}
	if diff := cmp.Diff([]string{"198.18.8.1"}, records[0].Values); diff != "" {
		t.Errorf("values mismatch (-want +got):\n%s", diff)
	}

	cp := l.controlPlane()
	l.request(t, cp, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, cp)
	net := l.network()
	l.request(t, net, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, net)
	if err := l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: "cloud-controller-manager"},
		&appsv1.Deployment{}); err != nil {
		t.Error(err)
	}
	sandboxes := l.containerRuntime()
	l.request(t, sandboxes, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, sandboxes)
	for _, name := range []string{
		"extension-controlplane-shoot", "extension-controlplane-storageclasses", "extension-networking-bridge",
		"extension-containerruntime-gvisor",
	} {
		if err := l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: name},
			&resourcesv1alpha1.ManagedResource{}); err != nil {
			t.Error(err)
		}
	}

	for _, obj := range []extensionsv1alpha1.Object{sandboxes, net, cp, record, infra} {
		l.gone(t, obj)
	}
	if networks, err = l.cloud.Client.ListNetworks(t.Context(), cloud.Filter{Name: l.namespace}); err != nil ||
		len(networks) != 0 {
		t.Errorf("networks after deletion are %v, %v, want none", networks, err)
	}
	if records, err = l.cloud.Client.ListDNSRecords(t.Context(), cloud.Filter{Name: record.Spec.Name}); err != nil ||
		len(records) != 0 {
		t.Errorf("records after deletion are %v, %v, want none", records, err)
	}
}

func TestBackup(t *testing.T) {
	l := startLandscape(t)
	bucket := &extensionsv1alpha1.BackupBucket{
		ObjectMeta: metav1.ObjectMeta{Name: "bucket-" + l.namespace, Annotations: map[string]string{
			extensionsv1alpha1.AnnotationGeneratedSecretNamespace: l.namespace,
		}},
		Spec: extensionsv1alpha1.BackupBucketSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", SecretRef: l.secretRef,
		},
	}
	entry := &extensionsv1alpha1.BackupEntry{
		ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "--1234"},
		Spec: extensionsv1alpha1.BackupEntrySpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", BucketName: bucket.Name,
			SecretRef: l.secretRef,
		},
	}
	for _, obj := range []extensionsv1alpha1.Object{bucket, entry} {
		l.request(t, obj, extensionsv1alpha1.OperationReconcile)
		l.succeeded(t, obj)
	}
	secret := &corev1.Secret{}
	generated := bucket.Status.GeneratedSecretRef
	if generated == nil || bucket.Status.ProviderStatus == nil {
		t.Fatalf("status is %+v, want a generated Secret and the creation time of the bucket", bucket.Status)
	}
	generatedKey := client.ObjectKey{Namespace: generated.Namespace, Name: generated.Name}
	if err := l.Client.Get(t.Context(), generatedKey, secret); err != nil {
		t.Error(err)
	}
	if err := l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: "etcd-backup"},
		secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data["bucketName"]); got != bucket.Name {
		t.Errorf("bucketName is %q, want %q", got, bucket.Name)
	}
	credentials := &corev1.Secret{}
	if err := l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: l.secretRef.Name},
		credentials); err != nil {
		t.Fatal(err)
	}
	if len(credentials.Finalizers) != 2 {
		t.Errorf("finalizers of the credentials are %q, want those of bucket and entry", credentials.Finalizers)
	}
	l.gone(t, entry)
	l.gone(t, bucket)
	err := l.Client.Get(t.Context(), generatedKey, secret)
	if !apierrors.IsNotFound(err) {
		t.Errorf("generated Secret after deletion: %v, want it gone", err)
	}
	if buckets, err := l.cloud.Client.ListBuckets(t.Context()); err != nil || len(buckets) != 0 {
		t.Errorf("buckets after deletion are %v, %v, want none", buckets, err)
	}
}

// TestBastion follows a bastion in the cloud: who may connect, and that nothing of it remains.
func TestBastion(t *testing.T) {
	l := startLandscape(t)
	l.makeNetwork(t)
	bastion := l.bastion()
	l.request(t, bastion, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, bastion)

	tags := cloud.Filter{Tags: map[string]string{"cluster.hortus.dev/name": l.namespace}}
	balancers := func() []cloud.LoadBalancer {
		t.Helper()
		found, err := l.cloud.Client.ListLoadBalancers(t.Context(), tags)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	instances := func() []cloud.Instance {
		t.Helper()
		found, err := l.cloud.Client.ListInstances(t.Context(), tags)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if len(instances()) != 1 || len(balancers()) != 1 {
		t.Fatalf("there are the instances %v and the load balancers %v, want one of each", instances(), balancers())
	}
	instance, balancer := instances()[0], balancers()[0]
	if instance.MachineType != "small" || instance.Image != "hortus.dev/machine:1.1.0" {
		t.Errorf("the instance has type %q and image %q", instance.MachineType, instance.Image)
	}
	if got := bastion.Status.Ingress; got == nil || got.IP != balancer.Address {
		t.Errorf("the address is %v, want %s", got, balancer.Address)
	}
	want := []cloud.Listener{{Port: 22, Targets: []cloud.Target{{InstanceID: instance.ID, Port: 22}}}}
	if diff := cmp.Diff(want, balancer.Listeners); diff != "" {
		t.Errorf("listeners mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"192.0.2.7/32"}, balancer.AllowedCIDRs); diff != "" {
		t.Errorf("allowed prefixes mismatch (-want +got):\n%s", diff)
	}

	bastion.Spec.Ingress[0].IPBlock = networkingv1.IPBlock{CIDR: "192.0.2.0/30", Except: []string{"192.0.2.1/32"}}
	l.request(t, bastion, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, bastion)
	if diff := cmp.Diff([]string{"192.0.2.0/32", "192.0.2.2/31"}, balancers()[0].AllowedCIDRs); diff != "" {
		t.Errorf("allowed prefixes mismatch after a change (-want +got):\n%s", diff)
	}
	if len(instances()) != 1 || instances()[0].ID != instance.ID {
		t.Errorf("the change has replaced the instance: %v", instances())
	}

	l.gone(t, bastion)
	if len(instances())+len(balancers()) > 0 {
		t.Errorf("the instances %v and the load balancers %v remain", instances(), balancers())
	}
}
