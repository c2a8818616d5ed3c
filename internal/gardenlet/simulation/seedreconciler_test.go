package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/test/sim"
)

func statusOf(conditions []corev1beta1.Condition, kind corev1beta1.ConditionType) corev1beta1.ConditionStatus {
	if c := corev1beta1.FindCondition(conditions, kind); c != nil {
		return c.Status
	}
	return ""
}

// rules hold after each write.
func (r *seedRun) rules() {
	r.Always("conditions become True only when they are, GardenletReady with the Lease", r.truthful)
	r.Always("the observed generation is in effect", r.inEffect)
	r.Always("the finalizer and the components stay while something depends on the Seed", r.stays)
	r.Always("the bucket stays while a Shoot may need it, or a backup is in it", func() error {
		b, ok := r.bucket()
		deleting := ok && b.DeletionTimestamp != nil && !r.bucketDeleted
		return is(!deleting || !r.garden.Exists(entryOfShoot()) && !r.garden.Exists(shootCalled("s")), "it is being deleted")
	})
	r.Always("no heartbeat is sent while the seed does not answer", func() error {
		lease := leaseOf("a")
		return is(!r.down || !r.garden.Exists(lease) || !lease.Spec.RenewTime.After(r.downAt), "renewed at %s",
			lease.Spec.RenewTime)
	})
	r.Always("a control plane is not unknown if its Shoot exists", func() error {
		s := seedA()
		if !r.garden.Exists(s) {
			return nil
		}
		c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedControlPlanesKnown)
		unknown := c != nil && strings.Contains(c.Message, "shoot--dev--s")
		return is(!unknown || !r.garden.Exists(shootCalled("s")), "%+v", c)
	})
	r.Always("what others write to the Seed stays", func() error {
		s := seedA()
		if !r.garden.Exists(s) {
			return is(!r.written, "the Seed is gone")
		}
		if r.written && (s.Labels["example.com/from"] == "" || s.Labels["example.com/by"] != "others" ||
			s.Annotations["example.com/by"] != "others" || !controllerutil.ContainsFinalizer(s, foreignFinalizer)) {
			return is(false, "%+v", s.ObjectMeta)
		}
		c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedBackupBucketsReady)
		return is(r.report == "" || c != nil && c.Message == r.report, "condition %+v, reported: %s", c, r.report)
	})
	versions := map[client.Object]string{}
	r.Always("objects of others stay as they are", func() error {
		for o, cluster := range r.others {
			now := o.DeepCopyObject().(client.Object)
			if !cluster.Exists(now) || versions[o] != "" && now.GetResourceVersion() != versions[o] {
				return is(false, "%T %s is %+v", o, o.GetName(), now)
			}
			versions[o] = now.GetResourceVersion()
		}
		return nil
	})
}

// truthful compares conditions that have just become True with what is there. A reconciliation takes no time here, so
// what has changed at the same time, and not before the last pass, may have changed after it was read.
func (r *seedRun) truthful() error {
	s, now := seedA(), moment{r.Clock().Now(), r.passes}
	if !r.garden.Exists(s) {
		return nil
	}
	i, service, lease := installation("x", "a"), gatewayService(), leaseOf("a")
	ready := !r.garden.Exists(i) ||
		statusOf(i.Status.Conditions, corev1beta1.ControllerInstallationHealthy) == corev1beta1.ConditionTrue
	running := r.seed.Exists(service) && len(service.Status.LoadBalancer.Ingress) > 0
	for _, d := range []*appsv1.Deployment{gatewayDeployment(), resourceManager()} {
		running = running && r.seed.Exists(d) && d.Status.AvailableReplicas > 0
	}
	alive := r.garden.Exists(lease) && now.time.Sub(lease.Spec.RenewTime.Time) <= heartbeat+time.Microsecond
	for kind, fact := range map[corev1beta1.ConditionType]bool{
		corev1beta1.SeedExtensionsReady: ready, corev1beta1.SeedSystemComponentsHealthy: running,
		corev1beta1.SeedGardenletReady: alive, corev1beta1.SeedControlPlanesKnown: !r.leftOver,
	} {
		since := r.falseSince[kind]
		if r.wasFact[kind] && !fact || since.time.IsZero() {
			since = now
		}
		r.falseSince[kind] = since
		r.wasFact[kind] = fact
		isTrue := statusOf(s.Status.Conditions, kind) == corev1beta1.ConditionTrue
		became := isTrue && !r.wasTrue[kind]
		r.wasTrue[kind] = isTrue
		if became && !fact && (now.time.After(since.time) || now.passes > since.passes+1) {
			return is(false, "%s has become True, but is not since %s", kind, since.time)
		}
	}
	return nil
}

// inEffect compares the gateway with the generation that the Seed says is in effect.
func (r *seedRun) inEffect() error {
	s, service := seedA(), gatewayService()
	if !r.garden.Exists(s) {
		return nil
	}
	if settings := s.Spec.Settings; settings != nil {
		r.versions[s.Generation] = settings.LoadBalancerServices.Annotations[annotationVersion]
	}
	now := s.Status.ObservedGeneration
	if now == r.observed {
		return nil
	}
	r.observed = now
	return is(r.seed.Exists(service) && service.Annotations[annotationVersion] == r.versions[now],
		"generation %d is version %s, the annotations are %v", now, r.versions[now], service.Annotations)
}

// stays fails if the gardenlet gives up the Seed or removes a component too early.
func (r *seedRun) stays() error {
	s := seedA()
	exists := r.garden.Exists(s)
	kept := exists && controllerutil.ContainsFinalizer(s, corev1beta1.FinalizerName)
	r.protected = r.protected || kept
	if !r.protected {
		return nil
	}
	needed := r.garden.Exists(shootCalled("s")) || r.garden.Exists(installation("x", "a"))
	if _, bucket := r.bucket(); bucket {
		needed = true
	}
	if needed && !kept {
		return is(false, "the finalizers are %v", s.Finalizers)
	}
	for _, o := range []client.Object{gatewayDeployment(), resourceManager(), gatewayService()} {
		key := fmt.Sprintf("%T %s", o, o.GetName())
		there := r.seed.Exists(o)
		if needed && !there && r.deployed[key] {
			return is(false, "%s is gone", key)
		}
		r.deployed[key] = there
	}
	if kept {
		return nil
	}
	return r.removed()
}

// removed fails unless everything that the gardenlet has made is gone, except for namespaces, priority classes and
// definitions.
func (r *seedRun) removed() error {
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &policyv1.PodDisruptionBudgetList{},
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &admissionv1.MutatingWebhookConfigurationList{},
		&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
	} {
		if err := r.seed.List(context.Background(), list); err != nil {
			return err
		}
		var left []string
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if o := o.(client.Object); o.GetNamespace() != "others" {
				left = append(left, o.GetName())
			}
			return nil
		})
		if err != nil || len(left) > 0 {
			return is(false, "%T: %v", list, left)
		}
	}
	return nil
}

// tamper deletes an object of the gardenlet, if it exists.
func (r *seedRun) tamper(o client.Object) change {
	return func(ctx context.Context, c client.Client) error {
		r.deployed = map[string]bool{}
		return client.IgnoreNotFound(c.Delete(ctx, o))
	}
}

func (r *seedRun) configure(version int) change {
	return func(context.Context, client.Client) error {
		r.version = version
		s := seedA()
		if !r.garden.Exists(s) {
			return nil
		}
		return r.garden.Edit(s, func() { s.Spec = r.configuration().Spec }) // By another replica that has started before.
	}
}

// emergency stops or resumes the reconciliations of Shoots.
func (r *seedRun) emergency(stop bool) change {
	return func(context.Context, client.Client) error {
		s := seedA()
		if !r.garden.Exists(s) {
			return nil
		}
		return r.garden.Edit(s, func() {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationEmergencyStopShootReconciliations,
				fmt.Sprint(stop))
		})
	}
}

// reports writes the condition of somebody else.
func (r *seedRun) reports(message string) change {
	return func(context.Context, client.Client) error {
		s := seedA()
		if !r.garden.Exists(s) {
			return nil
		}
		r.report = message
		return r.garden.EditStatus(s, func() {
			s.Status.Conditions = corev1beta1.SetCondition(s.Status.Conditions, corev1beta1.Condition{
				Type: corev1beta1.SeedBackupBucketsReady, Status: corev1beta1.ConditionTrue, Message: message,
			}, r.Clock().Now())
		})
	}
}

func (r *seedRun) answers(answers bool) change {
	return func(context.Context, client.Client) error {
		r.down, r.downAt = !answers, r.Clock().Now()
		return nil
	}
}

// makeEntry makes a backup, if the bucket is there.
func (r *seedRun) makeEntry(ctx context.Context, c client.Client) error {
	b, ok := r.bucket()
	if !ok || b.DeletionTimestamp != nil {
		return nil // The API server refuses it.
	}
	e := entryOfShoot()
	e.Spec.BucketName = b.Name
	return c.Create(ctx, ofSeed(e))
}

func controlPlaneCalled(name string) *corev1.Namespace {
	ns := named[corev1.Namespace]("", name)
	ns.Labels = map[string]string{corev1beta1.LabelRole: corev1beta1.RoleShoot}
	return ns
}

// working fails unless the Seed is ready, with what its configuration says.
func (r *seedRun) working() error {
	s, service, d := seedA(), gatewayService(), gatewayDeployment()
	b, ok := r.bucket()
	if !ok || !r.garden.Exists(s) || !r.seed.Exists(service) || !r.seed.Exists(d) || !r.seed.Exists(resourceManager()) {
		return is(false, "something does not exist; the status is %+v", s.Status)
	}
	known := corev1beta1.ConditionTrue
	if r.leftOver {
		known = corev1beta1.ConditionFalse
	}
	for kind, want := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
		corev1beta1.SeedGardenletReady:          corev1beta1.ConditionTrue,
		corev1beta1.SeedSystemComponentsHealthy: corev1beta1.ConditionTrue,
		corev1beta1.SeedExtensionsReady:         corev1beta1.ConditionTrue,
		corev1beta1.SeedControlPlanesKnown:      known,
	} {
		if got := statusOf(s.Status.Conditions, kind); got != want {
			return is(false, "%s is %s: %+v", kind, got, s.Status.Conditions)
		}
	}
	stop := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedEmergencyStopShootReconciliations)
	if (stop != nil) != s.EmergencyStop() {
		return is(false, "the annotations are %v, and the condition about an emergency stop is %+v", s.Annotations, stop)
	}
	v := fmt.Sprint(r.version)
	if s.Status.ObservedGeneration != s.Generation || service.Annotations[annotationVersion] != v ||
		r.annotated && service.Annotations["example.com/by"] != "others" || ptr.Deref(d.Spec.Replicas, 0) != 2 ||
		ptr.Deref(s.Status.ClusterIdentity, "") == "" || ptr.Deref(s.Status.KubernetesVersion, "") != "v1.36.3" ||
		!notAfter.Equal(s.Status.ClientCertificateExpirationTimestamp) {
		return is(false, "generation %d, status %+v, annotations %v, %d replicas", s.Generation, s.Status,
			service.Annotations, ptr.Deref(d.Spec.Replicas, 0))
	}
	for _, o := range r.definitions {
		if !r.seed.Exists(o.DeepCopy()) {
			return is(false, "the definition of %s is missing", o.Name)
		}
	}
	if !r.seed.Exists(r.placeholders[1].DeepCopy()) {
		return is(false, "the placeholder is missing")
	}
	return is(b.DeletionTimestamp == nil && b.Spec.CredentialsRef.Name == "key-"+v && *b.Spec.SeedName == "a" &&
		metav1.IsControlledBy(b, s) || s.DeletionTimestamp != nil, "bucket %+v %+v", b.ObjectMeta, b.Spec)
}

// operates fails unless the last operation of the Seed is of a type, with a description.
func (r *seedRun) operates(
	kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState, text string,
) error {
	s := seedA()
	r.garden.Exists(s)
	op := s.Status.LastOperation
	return is(op != nil && op.Type == kind && op.State == state && strings.Contains(op.Description, text), "%+v", op)
}

// rests fails if anything is changed in two minutes in which nothing happens.
func (r *seedRun) rests() {
	r.T.Helper()
	state := func() []string {
		s := seedA()
		r.garden.Exists(s)
		b, _ := r.bucket()
		return []string{s.ResourceVersion, b.ResourceVersion, fmt.Sprint(r.seed.Changes())}
	}
	before := state()
	r.Idle(2 * time.Minute)
	after := state()
	r.Eventually(5, "nothing is changed without a reason", func() error {
		return is(slices.Equal(before, after), "versions %v have become %v", before, after)
	})
}

// A Seed is what its configuration says, and reports what is there. It stays, with all that its Shoots need, until
// nothing depends on it; then nothing of it is left.
func TestSimulateSeeds(t *testing.T) {
	c, err := config.Parse([]byte(seedConfiguration))
	if err != nil {
		t.Fatal(err)
	}
	sim.RunSeeds(t, 15, func(w *sim.World) {
		r := newSeedRun(w, c)
		r.addOthers()
		r.rules()
		w.Overlap()
		w.Rarer(10)
		r.begins()
		w.Faults(50)
		w.Idle(time.Second)
		r.lives()
		w.Faults(50)
		w.Idle(time.Second)
		r.recovers()
		w.Faults(50)
		w.Eventually(150, "the Seed is ready", func() error {
			return errors.Join(r.working(), r.operates(corev1beta1.LastOperationTypeReconcile,
				corev1beta1.LastOperationStateSucceeded, ""))
		})
		r.rests()

		r.ends()
		w.Faults(60)
		r.outage()
		w.Eventually(100, "the Seed waits for its Shoot, and is ready", func() error {
			return errors.Join(r.working(), r.operates(corev1beta1.LastOperationTypeDelete,
				corev1beta1.LastOperationStateProcessing, "garden-dev/s"))
		})
		w.Change("the control plane is gone", r.seed, remove(controlPlaneCalled("shoot--dev--s")))
		w.Change("the Shoot is gone", r.garden, remove(shootCalled("s")))
		w.Change("the backup is gone", r.garden, remove(entryOfShoot()))
		w.Change("others release the Seed", r.garden, func(context.Context, client.Client) error {
			s := seedA()
			r.written = false
			return client.IgnoreNotFound(r.garden.Edit(s, func() {
				controllerutil.RemoveFinalizer(s, foreignFinalizer)
			}))
		})
		w.Faults(60)
		w.Eventually(100, "everything is gone", func() error {
			return errors.Join(r.garden.Gone(seedA(), leaseOf("a"), installation("x", "a")), r.removed())
		})
		before := r.garden.Changes() + r.seed.Changes()
		w.Idle(time.Minute)
		w.Eventually(5, "it stays so", func() error {
			return is(before == r.garden.Changes()+r.seed.Changes(), "something is written again")
		})
	})
}

// begins is the time in which the Seed is registered and first used.
func (r *seedRun) begins() {
	if r.Random.IntN(3) > 0 { // Otherwise nothing but the gardenlet waits for the bucket.
		r.Change("install an extension", r.garden, create(installation("x", "a")))
	}
	r.Change("somebody writes to the Seed", r.garden, func(context.Context, client.Client) error {
		s := seedA()
		if r.written = r.garden.Exists(s); !r.written {
			return nil
		}
		return r.garden.Edit(s, func() {
			metav1.SetMetaDataLabel(&s.ObjectMeta, "example.com/by", "others")
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, "example.com/by", "others")
			controllerutil.AddFinalizer(s, foreignFinalizer)
		})
	})
	r.Change("the garden reports the bucket", r.garden, r.reports("it is being made"))
	r.Change("make a Shoot", r.garden, create(shootCalled("s")))
	r.Change("make its control plane", r.seed, create(controlPlaneCalled("shoot--dev--s")))
	r.Change("the extension fails", r.garden, func(ctx context.Context, c client.Client) error {
		r.extensionFails = true
		return r.install(ctx, c)
	})
	r.Change("configure version 2", r.garden, r.configure(2))
}

// lives is the time in which problems occur.
func (r *seedRun) lives() {
	r.Change("somebody deletes the bucket", r.garden, func(ctx context.Context, c client.Client) error {
		b, ok := r.bucket()
		if !ok {
			return nil
		}
		err := c.Delete(ctx, b)
		r.bucketDeleted = r.garden.Exists(b)
		return err
	})
	r.Change("a control plane is left over", r.seed, func(ctx context.Context, c client.Client) error {
		r.leftOver = true
		return c.Create(ctx, controlPlaneCalled("shoot--dev--lost"))
	})
	r.Change("the seed does not answer", r.seed, r.answers(false))
	r.Change("pods fail", r.seed, func(ctx context.Context, c client.Client) error {
		r.podsFail = true
		return r.kubernetes(ctx, c)
	})
	r.Change("an operator stops reconciliations of Shoots", r.garden, r.emergency(true))
	r.Change("the garden reports the bucket", r.garden, r.reports("it is available"))
	r.Change("somebody deletes the gateway", r.seed, r.tamper(gatewayDeployment()))
	r.Change("configure version 3", r.garden, r.configure(3))
}

// recovers is the time in which they end.
func (r *seedRun) recovers() {
	r.Change("the seed answers", r.seed, r.answers(true))
	r.Change("the extension works", r.garden, func(ctx context.Context, c client.Client) error {
		r.extensionFails = false
		return r.install(ctx, c)
	})
	r.Change("pods run", r.seed, func(ctx context.Context, c client.Client) error {
		r.podsFail = false
		return r.kubernetes(ctx, c)
	})
	r.Change("make a backup", r.garden, r.makeEntry)
	r.Change("somebody annotates the gateway's Service", r.seed, func(context.Context, client.Client) error {
		s := gatewayService()
		if r.annotated = r.seed.Exists(s); !r.annotated {
			return nil
		}
		return r.seed.Edit(s, func() { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "example.com/by", "others") })
	})
	r.Change("somebody scales the gateway", r.seed, func(context.Context, client.Client) error {
		d := gatewayDeployment()
		return client.IgnoreNotFound(r.seed.Edit(d, func() { d.Spec.Replicas = new(int32(7)) }))
	})
	if r.Random.IntN(2) == 0 {
		r.Change("the left over control plane is removed", r.seed, func(ctx context.Context, c client.Client) error {
			r.leftOver = false
			return c.Delete(ctx, controlPlaneCalled("shoot--dev--lost"))
		})
	}
	if r.Random.IntN(2) == 0 {
		r.Change("the operator resumes reconciliations of Shoots", r.garden, r.emergency(false))
	}
	r.Change("the garden reports the bucket", r.garden, r.reports("it is still available"))
}

// outage lasts until the garden gives the Seed up.
func (r *seedRun) outage() {
	r.down, r.downAt = true, r.Clock().Now()
	r.Idle(overdue + heartbeat)
	r.down = false
}

// ends is the beginning of the Seed's deletion, in which its Shoot still runs.
func (r *seedRun) ends() {
	r.Change("delete the Seed", r.garden, func(ctx context.Context, c client.Client) error {
		r.leaving = true
		return c.Delete(ctx, seedA())
	})
	r.Change("the seed does not answer", r.seed, r.answers(false))
	r.Change("somebody deletes the resource-manager", r.seed, r.tamper(resourceManager()))
	r.Change("the seed answers", r.seed, r.answers(true))
	r.Change("configure version 4", r.garden, r.configure(4))
}
