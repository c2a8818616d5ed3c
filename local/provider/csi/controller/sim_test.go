package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/csi"
	"hortus.dev/hortus/test/sim"
)

const (
	zone = "local-b"
	// protectionOfClaims and protectionOfVolumes are the finalizers of Kubernetes.
	protectionOfClaims  = "kubernetes.io/pvc-protection"
	protectionOfVolumes = "kubernetes.io/pv-protection"
)

// storage is a run: the cluster, its cloud, and what users expect of them.
type storage struct {
	*sim.World
	shoot *sim.Cluster
	cloud *simCloud

	notes map[string]types.UID // What pods have written, by volume: the UID of their claim.
	kept  map[string]bool      // Volumes that a user has retained.
	named map[string]bool      // Those of them whose PersistentVolume is retained, too.
	again bool                 // A claim that was deleted is to be made again.
	late  bool                 // A user retains volumes when nothing else keeps their PersistentVolumes any longer.
}

// admission is the process as its cluster's admission plugins see it: they protect new PersistentVolumes.
type admission struct{ *sim.Process }

func (a admission) GetClient() client.Client { return protecting{a.Process.GetClient()} }

type protecting struct{ client.Client }

func (p protecting) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if pv, ok := o.(*corev1.PersistentVolume); ok {
		controllerutil.AddFinalizer(pv, protectionOfVolumes)
	}
	return p.Client.Create(ctx, o, opts...)
}

func newStorage(w *sim.World) *storage {
	s := &storage{
		World: w, shoot: w.Cluster("shoot", sim.Scheme()).Uncached(&storagev1.StorageClass{}, &storagev1.CSINode{}),
		cloud: newSimCloud(rand.New(rand.NewPCG(w.Random.Uint64(), 0))),
		notes: map[string]types.UID{}, kept: map[string]bool{}, named: map[string]bool{},
	}
	s.shoot.AddNamespaces("ns")
	s.shoot.Add(testClass())
	for _, name := range []string{"n1", "n2", "n3"} {
		s.cloud.instances["i-"+name] = true
		s.shoot.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone},
		}}, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: csi.Driver, NodeID: "i-" + name}},
		}})
	}
	w.Process("cloud-controller-manager", s.shoot, func(p *sim.Process) error {
		return SetupWithManager(admission{p}, reached{s.cloud, p}, cluster, "cloud-controller-manager")
	})
	s.kubernetes()
	reports := w.Cluster("reports", sim.Scheme()) // Each report of the cloud is a change of the world.
	reports.AddNamespaces("ns")
	report := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "reports"}}
	reports.Add(report)
	w.Actor("the cloud reports", reports, func(context.Context, client.Client) error {
		if !s.cloud.report(w.Random) {
			return nil
		}
		return reports.Edit(report, func() { report.Data = map[string]string{"n": report.Data["n"] + "x"} })
	})
	return s
}

// claim is one that waits for a node, or that the scheduler has placed on one.
func claimNamed(name, node string) *corev1.PersistentVolumeClaim {
	return testClaim(func(c *corev1.PersistentVolumeClaim) {
		c.Name, c.UID, c.Finalizers, c.Annotations = name, "", []string{protectionOfClaims}, nil
		if node != "" {
			c.Annotations = map[string]string{annotationSelectedNode: node}
		}
	})
}

func podNamed(name, claim, node string) *corev1.Pod {
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Volumes: []corev1.Volume{{VolumeSource: source}},
	}}
}

func claimOf(pod *corev1.Pod) string { return pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName }

func listOf[T any, L interface {
	*T
	client.ObjectList
}](s *storage) L {
	list := L(new(T))
	if err := s.shoot.List(context.Background(), list); err != nil {
		s.T.Fatal(err)
	}
	return list
}

func (s *storage) claims() []corev1.PersistentVolumeClaim {
	return listOf[corev1.PersistentVolumeClaimList](s).Items
}

func (s *storage) volumes() []corev1.PersistentVolume {
	return listOf[corev1.PersistentVolumeList](s).Items
}

func (s *storage) attachments() []storagev1.VolumeAttachment {
	return listOf[storagev1.VolumeAttachmentList](s).Items
}

func (s *storage) pods() []corev1.Pod { return listOf[corev1.PodList](s).Items }

// claim returns a claim, or nil.
func (s *storage) claim(name string) *corev1.PersistentVolumeClaim {
	c := claimNamed(name, "")
	if !s.shoot.Exists(c) {
		return nil
	}
	return c
}

// kubernetes adds the controllers of Kubernetes.
func (s *storage) kubernetes() {
	for _, act := range []struct {
		name string
		act  func() error
	}{
		{"volumes are bound", s.bind},
		{"volumes and claims out of use are released", s.unprotect},
		{"pods are scheduled", s.schedule},
		{"attachments are requested", s.attach},
		{"pods write", s.write},
	} {
		s.Actor(act.name, s.shoot, func(context.Context, client.Client) error { return act.act() })
	}
}

func (s *storage) bind() error {
	for _, pv := range s.volumes() {
		claim := s.claim(pv.Spec.ClaimRef.Name)
		phase := corev1.VolumeBound
		switch {
		case claim == nil || claim.UID != pv.Spec.ClaimRef.UID:
			phase = corev1.VolumeReleased
		case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name:
			phase = corev1.VolumeReleased
		case claim.Spec.VolumeName == "" && !pv.DeletionTimestamp.IsZero():
			phase = corev1.VolumePending
		case claim.Spec.VolumeName == "":
			if err := s.shoot.Edit(claim, func() { claim.Spec.VolumeName = pv.Name }); err != nil {
				return err
			}
		}
		if pv.Status.Phase != phase {
			if err := s.shoot.EditStatus(&pv, func() { pv.Status.Phase = phase }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *storage) unprotect() error {
	for _, pv := range s.volumes() {
		if !pv.DeletionTimestamp.IsZero() && pv.Status.Phase != corev1.VolumeBound {
			held := controllerutil.ContainsFinalizer(&pv, protectionOfVolumes)
			if err := s.shoot.Edit(&pv, func() { controllerutil.RemoveFinalizer(&pv, protectionOfVolumes) }); err != nil {
				return err
			}
			if held && s.late {
				return s.retain(context.Background(), s.shoot)
			}
		}
	}
	used := map[string]bool{}
	for _, pod := range s.pods() {
		used[claimOf(&pod)] = true
	}
	for _, c := range s.claims() {
		if !c.DeletionTimestamp.IsZero() && !used[c.Name] && controllerutil.ContainsFinalizer(&c, protectionOfClaims) {
			if err := s.shoot.Edit(&c, func() { controllerutil.RemoveFinalizer(&c, protectionOfClaims) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *storage) schedule() error {
	for _, c := range s.claims() {
		if c.Spec.VolumeName == "" && c.DeletionTimestamp.IsZero() && c.Annotations[annotationSelectedNode] == "" {
			return s.shoot.Edit(&c, func() { c.Annotations = map[string]string{annotationSelectedNode: "n2"} })
		}
	}
	return nil
}

// attach requests the attachments that pods need. At times it does not wait until a volume is detached elsewhere, as
// for a node that does not answer. What is attached to a node that is gone is not detached for minutes.
func (s *storage) attach() error {
	wanted, existing := map[string]*storagev1.VolumeAttachment{}, map[string]bool{}
	for _, pod := range s.pods() {
		c := s.claim(claimOf(&pod))
		if c == nil || c.Spec.VolumeName == "" {
			continue
		}
		for _, pv := range s.volumes() {
			if pv.Name == c.Spec.VolumeName && pv.Status.Phase == corev1.VolumeBound {
				va := attachment("csi-"+pv.Name+"-"+pod.Spec.NodeName, pod.Spec.NodeName)
				va.Spec.Source.PersistentVolumeName = &pv.Name
				wanted[va.Name] = va
			}
		}
	}
	elsewhere := map[string]bool{}
	for _, va := range s.attachments() {
		existing[va.Name], elsewhere[*va.Spec.Source.PersistentVolumeName] = true, true
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: va.Spec.NodeName}}
		if wanted[va.Name] == nil && va.DeletionTimestamp.IsZero() && !(va.Status.Attached && !s.shoot.Exists(node)) {
			if err := s.shoot.Delete(context.Background(), &va); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		va := wanted[name]
		if !existing[name] && (!elsewhere[*va.Spec.Source.PersistentVolumeName] || s.Random.IntN(4) == 0) {
			return s.shoot.Create(context.Background(), va)
		}
	}
	return nil
}

// write lets pods write to their volumes, once these are attached.
func (s *storage) write() error {
	for _, pod := range s.pods() {
		c := s.claim(claimOf(&pod))
		if c == nil || c.Spec.VolumeName == "" {
			continue
		}
		va := attachment("csi-"+c.Spec.VolumeName+"-"+pod.Spec.NodeName, "")
		if s.shoot.Exists(va) && va.Status.Attached && va.DeletionTimestamp.IsZero() {
			id := va.Annotations[annotationVolume]
			if v := s.cloud.find(id); v != nil && v.InstanceID == "i-"+pod.Spec.NodeName {
				if v.data != "" && v.data != string(c.UID) {
					return fmt.Errorf("claim %s has data of %s", c.UID, v.data)
				}
				v.data, s.notes[id] = string(c.UID), c.UID
			}
		}
	}
	return nil
}

// rules hold after every write of anybody.
func (s *storage) rules() {
	s.Always("a volume has a PersistentVolume, or a claim that waits for it", func() error {
		claims := map[string]bool{}
		for _, c := range s.claims() {
			claims[volumeName(&c)] = true
		}
		for _, v := range s.cloud.volumes {
			if v.State != cloud.StateTerminating && !s.kept[v.ID] && !claims[v.Name] && !refersTo(s.volumes(), v.ID) {
				return fmt.Errorf("volume %s (%s) is left behind", v.ID, v.Name)
			}
		}
		return nil
	})
	s.Always("a PersistentVolume has its volume", func() error {
		for _, pv := range s.volumes() {
			if pv.Spec.CSI != nil && pv.DeletionTimestamp.IsZero() && !s.has(pv.Spec.CSI.VolumeHandle) {
				return fmt.Errorf("the volume of %s is gone", pv.Name)
			}
		}
		return nil
	})
	s.Always("data stay as long as their claim, or forever if a user wants it", func() error {
		for _, c := range s.claims() {
			for id, uid := range s.notes {
				if uid == c.UID && !s.has(id) {
					return fmt.Errorf("the data of claim %s are gone", c.Name)
				}
			}
		}
		for id := range s.kept {
			if !s.has(id) {
				return fmt.Errorf("volume %s, which is retained, is gone", id)
			}
		}
		return nil
	})
	s.Always("what is attached has a VolumeAttachment that keeps it", func() error {
		all := s.attachments()
		for _, v := range s.cloud.volumes {
			if v.InstanceID != "" && !slices.ContainsFunc(all, func(va storagev1.VolumeAttachment) bool {
				return va.Annotations[annotationVolume] == v.ID && va.Annotations[annotationInstance] == v.InstanceID &&
					controllerutil.ContainsFinalizer(&va, finalizerAttachment)
			}) {
				return fmt.Errorf("volume %s is %s to %s", v.ID, v.State, v.InstanceID)
			}
		}
		return nil
	})
	s.Always("what is reported as attached is attached", func() error {
		for _, va := range s.attachments() {
			instance := va.Annotations[annotationInstance]
			if !va.Status.Attached || !va.DeletionTimestamp.IsZero() || !s.cloud.instances[instance] {
				continue
			}
			v := s.cloud.find(va.Annotations[annotationVolume])
			if v == nil || v.State != cloud.StateAttached || v.InstanceID != instance {
				return fmt.Errorf("VolumeAttachment %s: volume is %+v", va.Name, v)
			}
		}
		return nil
	})
}

// has reports whether the cloud has the volume, and is not deleting it.
func (s *storage) has(id string) bool {
	v := s.cloud.find(id)
	return v != nil && v.State != cloud.StateTerminating
}

// retain lets a user retain all volumes that are not being deleted yet.
func (s *storage) retain(context.Context, client.Client) error {
	for _, pv := range s.volumes() {
		id := pv.Spec.CSI.VolumeHandle
		if !s.has(id) {
			continue
		}
		s.kept[id], s.named[id] = true, pv.DeletionTimestamp.IsZero()
		return s.shoot.Edit(&pv, func() { pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain })
	}
	return nil
}

// create and remove are changes by users.
func (s *storage) create(what string, objects ...client.Object) {
	s.Change(what, s.shoot, func(ctx context.Context, c client.Client) error {
		for _, o := range objects {
			if err := c.Create(ctx, o); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *storage) remove(what string, objects ...client.Object) {
	s.Change(what, s.shoot, func(ctx context.Context, c client.Client) error {
		for _, o := range objects {
			if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return nil
	})
}

// users makes the changes of the first simulation.
func (s *storage) users() {
	s.create("claims come", claimNamed("moves", "n1"), claimNamed("goes", "n1"))
	s.create("a pod comes", podNamed("moves-1", "moves", "n1"))
	s.remove("a claim goes", claimNamed("goes", ""))
	s.create("another comes", claimNamed("elsewhere", "n1"))
	s.Change("a claim is bound to another volume", s.shoot, func(ctx context.Context, c client.Client) error {
		claim := s.claim("elsewhere")
		if claim.Spec.VolumeName != "" {
			return nil
		}
		other := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
		other.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: claim.Name, UID: claim.UID}
		other.Spec.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/"}
		if err := c.Create(ctx, other); err != nil {
			return err
		}
		return s.shoot.Edit(claim, func() { claim.Spec.VolumeName = other.Name })
	})
	s.Change("the claim comes again, when it is gone", s.shoot, func(context.Context, client.Client) error {
		s.again = true
		return nil
	})
	s.Actor("a claim comes again, with a pod", s.shoot, func(ctx context.Context, c client.Client) error {
		if !s.again || s.claim("goes") != nil {
			return nil
		}
		s.again = false
		return errors.Join(c.Create(ctx, claimNamed("goes", "n2")), c.Create(ctx, podNamed("goes-1", "goes", "n2")))
	})
	s.remove("a pod ends", podNamed("moves-1", "moves", "n1"))
	s.create("it runs elsewhere", podNamed("moves-2", "moves", "n2"))
	s.Change("an instance is lost, with its node", s.shoot, func(ctx context.Context, c client.Client) error {
		s.cloud.removeInstance("i-n3")
		return errors.Join(c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}),
			c.Delete(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}))
	})
	s.remove("its pod is evicted", podNamed("flees-1", "flees", "n3"))
	s.create("it runs elsewhere", podNamed("flees-2", "flees", "n1"))
	s.create("a claim comes", claimNamed("short", "n1"))
	s.remove("a claim is deleted right after its creation", claimNamed("short", ""))
}

// rests fails unless claims, volumes and attachments are what users and pods want, and nothing else is there.
func (s *storage) rests(claims ...string) error {
	for _, c := range s.claims() {
		switch {
		case !slices.Contains(claims, c.Name):
			return fmt.Errorf("claim %s is left with finalizers %v", c.Name, c.Finalizers)
		case c.Spec.VolumeName == "", controllerutil.ContainsFinalizer(&c, finalizerClaim):
			return fmt.Errorf("claim %s has volume %q, finalizers %v", c.Name, c.Spec.VolumeName, c.Finalizers)
		}
	}
	volumes := s.volumes()
	for _, pv := range volumes {
		switch {
		case pv.Spec.CSI == nil:
		case !s.has(pv.Spec.CSI.VolumeHandle):
			return fmt.Errorf("PersistentVolume %s has no volume", pv.Name)
		case pv.Status.Phase != corev1.VolumeBound && !s.kept[pv.Spec.CSI.VolumeHandle]:
			return fmt.Errorf("PersistentVolume %s is %s", pv.Name, pv.Status.Phase)
		}
	}
	for _, v := range s.cloud.volumes {
		if !s.kept[v.ID] && !refersTo(volumes, v.ID) {
			return fmt.Errorf("volume %s (%s) is left, %s", v.ID, v.Name, v.State)
		}
	}
	pods, attached := s.pods(), s.attachments()
	for _, va := range attached {
		if !va.Status.Attached || va.Status.AttachError != nil || va.Status.DetachError != nil {
			return fmt.Errorf("VolumeAttachment %s is %+v", va.Name, va.Status)
		}
	}
	if len(attached) != len(pods) {
		return fmt.Errorf("%d VolumeAttachments for %d pods", len(attached), len(pods))
	}
	return nil
}

// Volumes follow claims, and attachments follow VolumeAttachments. No data are lost, and no volume is left behind.
func TestSimulateVolumes(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		s := newStorage(w)
		s.rules()
		s.shoot.Add(claimNamed("flees", "n3"), podNamed("flees-1", "flees", "n3"))
		w.Eventually(100, "a pod has its volume", func() error { return s.rests("flees") })
		s.users()
		w.Overlap()
		w.Faults(250)
		w.Eventually(300, "all is bound and attached", func() error {
			return s.rests("moves", "goes", "elsewhere", "flees")
		})
		w.Change("all pods and claims go", s.shoot, func(ctx context.Context, c client.Client) error {
			return errors.Join(c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("ns")),
				c.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace("ns")))
		})
		w.Faults(60)
		w.Eventually(200, "nothing is left", func() error { return s.rests() })
	})
}

// A volume that a user retains in the last moment stays, and so does its PersistentVolume until the user deletes it.
func TestSimulateRetainedVolumes(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		s := newStorage(w)
		s.rules()
		s.shoot.Add(claimNamed("data", "n1"), podNamed("pod", "data", "n1"))
		w.Eventually(100, "a pod has written", func() error {
			if len(s.notes) == 0 {
				return errors.New("there are no data")
			}
			return s.rests("data")
		})
		w.Always("what is retained has a PersistentVolume", func() error {
			for id, named := range s.named {
				if named && !refersTo(s.volumes(), id) {
					return fmt.Errorf("volume %s has none", id)
				}
			}
			return nil
		})
		s.remove("the pod and the claim go", podNamed("pod", "data", "n1"), claimNamed("data", ""))
		for range w.Random.IntN(12) {
			s.remove("time passes")
		}
		if s.late = w.Random.IntN(2) == 0; !s.late {
			w.Change("a user retains the volume", s.shoot, s.retain)
		}
		w.Faults(250)
		w.Eventually(100, "all rests", func() error { return s.rests() })
		w.Change("the user deletes the PersistentVolume", s.shoot, func(ctx context.Context, c client.Client) error {
			clear(s.named)
			return c.DeleteAllOf(ctx, &corev1.PersistentVolume{})
		})
		w.Faults(20)
		w.Eventually(100, "no PersistentVolume is left", func() error {
			if n := len(s.volumes()); n > 0 {
				return fmt.Errorf("%d are left", n)
			}
			return s.rests()
		})
	})
}
