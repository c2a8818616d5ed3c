package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/test/sim"
)

// Seeds by default: a run makes some thousand requests.
const (
	seedsOfWorkerless = 3
	seedsWithPool     = 2
)

// shootRun is a garden with the Shoot s, whose control plane is on the first of the seeds, and may move.
type shootRun struct {
	*sim.World
	garden, user *sim.Cluster
	hosts        []*hosting
	cloud        *provider
	now          ticking

	version int // Of the extension, as in the spec.
	// before is the Shoot as it was after the last write, and seen its version.
	before *corev1beta1.Shoot
	// secrets has the content of generated Secrets, by what identifies it; volume is the one of etcd.
	secrets map[string]string
	volume  types.UID
}

func newShootRun(w *sim.World, seeds ...string) *shootRun {
	cryptotest.SetGlobalRandom(w.T, w.Random.Uint64()) // Names depend on generated keys.
	r := &shootRun{World: w, now: newTicking(w), secrets: map[string]string{}, version: 1}
	scheme := seedScheme()
	r.garden, r.user, r.cloud = w.Cluster("garden", sim.Scheme()), w.Cluster("shoot", scheme), newProvider(w)
	r.garden.StatusHasAnnotations(&corev1beta1.Shoot{})
	r.cloud.now = r.now
	addGarden(r.garden, seeds...)
	addUser(r.user)
	backups := &bucket{}
	for _, name := range seeds {
		r.hosts = append(r.hosts, newHosting(w, name, scheme, r.user, r.cloud, backups))
		if len(seeds) > 1 {
			r.addBackup(name)
		}
	}
	for _, h := range r.hosts {
		r.addGardenlet(h)
		r.cloud.addProvider(w, h)
	}
	if len(seeds) > 1 {
		w.Actor("the destination of a move is ready", r.garden, r.destination)
	}
	return r
}

// host is the seed of the control plane.
func (r *shootRun) host() *hosting {
	s := shootS()
	if r.garden.Exists(s) {
		for _, h := range r.hosts {
			if h.name == ptr.Deref(s.Status.SeedName, "") {
				return h
			}
		}
	}
	return r.hosts[0]
}

func shootS() *corev1beta1.Shoot { return named[corev1beta1.Shoot]("garden-dev", "s") }

// external is all that the Shoot has outside of clusters.
func external() (out []client.Object) {
	for _, kind := range []string{
		extensionsv1alpha1.InfrastructureKind, extensionsv1alpha1.ControlPlaneKind, extensionsv1alpha1.WorkerKind,
		extensionsv1alpha1.NetworkKind, kindMachine,
	} {
		out = append(out, inCloud(kind, "s"))
	}
	return append(out, inCloud(extensionsv1alpha1.DNSRecordKind, "s-internal"), inCloud(kindLoadBalancer, "lb"),
		inCloud(extensionsv1alpha1.ExtensionKind, providerType))
}

// rules hold after each write.
func (r *shootRun) rules() {
	r.Always("the finalizer stays while something of the Shoot exists", func() error {
		s := shootS()
		if r.garden.Exists(s) && controllerutil.ContainsFinalizer(s, corev1beta1.FinalizerName) {
			return nil
		}
		return r.removed()
	})
	r.Always("what others need stays until they are gone", r.order)
	r.Always("the Shoot reports what has happened", func() error {
		s := shootS()
		if !r.garden.Exists(s) {
			r.before = nil
			return nil
		}
		if r.before != nil && r.before.ResourceVersion == s.ResourceVersion {
			return nil
		}
		before := r.before
		r.before = s
		if before == nil {
			return nil
		}
		return errors.Join(progress(before, s), requestsKept(before, s), r.done(s))
	})
	r.Always("credentials and data stay as they are", r.kept)
	r.Always("the user's objects stay until the Shoot is deleted", func() error {
		s := shootS()
		return is(r.garden.Exists(s) && s.DeletionTimestamp != nil || !r.garden.Exists(s) ||
			r.user.Exists(named[corev1.Pod](metav1.NamespaceDefault, "p")), "the pod is gone")
	})
}

// order: the clean-up of the Shoot needs its API server, and the objects of the provider need each other.
func (r *shootRun) order() error {
	cloud := r.cloud.cloud
	balancer, server := inCloud(kindLoadBalancer, "lb"), named[appsv1.Deployment](controlPlane, kubeapiserver.Name)
	if cloud.Exists(balancer) && (!r.host().seed.Exists(server) ||
		!cloud.Exists(inCloud(extensionsv1alpha1.ControlPlaneKind, "s"))) {
		return errors.New("a load balancer is left, which nothing can delete")
	}
	for _, kind := range []string{kindMachine, kindLoadBalancer, extensionsv1alpha1.WorkerKind} {
		name := "s"
		if kind == kindLoadBalancer {
			name = "lb"
		}
		if cloud.Exists(inCloud(kind, name)) && !cloud.Exists(inCloud(extensionsv1alpha1.InfrastructureKind, "s")) {
			return fmt.Errorf("the infrastructure of a %s is gone", kind)
		}
	}
	return nil
}

// progress: an operation goes forward, and none begins without a reason.
func progress(before, now *corev1beta1.Shoot) error {
	old, op := before.Status.LastOperation, now.Status.LastOperation
	if now.Status.ObservedGeneration < before.Status.ObservedGeneration ||
		now.Status.ObservedGeneration > now.Generation {
		return fmt.Errorf("observed generation %d has become %d of %d", before.Status.ObservedGeneration,
			now.Status.ObservedGeneration, now.Generation)
	}
	if old == nil {
		return nil
	}
	if op == nil {
		return errors.New("there is no last operation any more")
	}
	begins := op.State == corev1beta1.LastOperationStateProcessing && op.Progress == 0 &&
		(strings.HasSuffix(op.Description, "initialized.") || strings.HasSuffix(op.Description, "in progress."))
	due := before.DeletionTimestamp != nil || arriving(before) || before.Generation != before.Status.ObservedGeneration ||
		time.Since(old.LastUpdateTime.Time) >= shootSync-time.Second
	switch {
	case begins && old.State == corev1beta1.LastOperationStateSucceeded && !due:
		return fmt.Errorf("%+v begins after %+v without a reason", op, old)
	case begins, op.Type == old.Type && op.Progress >= old.Progress:
		return nil
	case !ptr.Equal(before.Status.SeedName, now.Status.SeedName):
		return nil // It is another seed's.
	}
	return fmt.Errorf("%+v has become %+v", old, op)
}

// requestsKept: a request for new credentials disappears only when they are being made.
func requestsKept(before, now *corev1beta1.Shoot) error {
	const annotation = corev1beta1.AnnotationOperation
	if before.Annotations[annotation] == "" || now.Annotations[annotation] != "" {
		return nil
	}
	last := func(s *corev1beta1.Shoot) (initiated, completed time.Time) {
		if c := s.Status.Credentials; c != nil && c.Rotation != nil && c.Rotation.Observability != nil {
			initiated = ptr.Deref(c.Rotation.Observability.LastInitiationTime, metav1.Time{}).Time
			completed = ptr.Deref(c.Rotation.Observability.LastCompletionTime, metav1.Time{}).Time
		}
		return initiated, completed
	}
	initiated, completed := last(before)
	again, _ := last(now)
	return is(again.After(initiated) || initiated.After(completed), "the request %q is gone: %+v",
		before.Annotations[annotation], now.Status.Credentials)
}

// done: what is reported as successful is there.
func (r *shootRun) done(s *corev1beta1.Shoot) error {
	op := s.Status.LastOperation
	if op == nil || op.State != corev1beta1.LastOperationStateSucceeded || s.Generation != s.Status.ObservedGeneration ||
		s.DeletionTimestamp != nil || op.Type == corev1beta1.LastOperationTypeMigrate {
		return nil
	}
	if s.Status.IsHibernated != s.HibernationEnabled() {
		return fmt.Errorf("hibernated: %t, wanted %t", s.Status.IsHibernated, s.HibernationEnabled())
	}
	if s.HibernationEnabled() {
		return is(!r.host().serving() && !r.cloud.cloud.Exists(inCloud(kindMachine, "s")), "it is not asleep")
	}
	extension := inCloud(extensionsv1alpha1.ExtensionKind, providerType)
	return is(r.cloud.cloud.Exists(extension) && r.host().serving() &&
		extension.Data["content"] == string(s.Spec.Extensions[0].ProviderConfig.Raw),
		"serving: %t, the extension has %v for %s", r.host().serving(), extension.Data,
		s.Spec.Extensions[0].ProviderConfig.Raw)
}

// kept: no credentials are generated twice, and the volume of etcd stays.
func (r *shootRun) kept() error {
	s := shootS()
	if !r.garden.Exists(s) || s.DeletionTimestamp != nil || arriving(s) {
		return nil
	}
	list := &corev1.SecretList{}
	if err := r.host().seed.List(context.Background(), list, client.MatchingLabels{
		secretsmanager.LabelPersist: "true", secretsmanager.LabelManagedBy: secretsmanager.ManagedBy,
	}); err != nil {
		return err
	}
	now := map[string]string{}
	for i := range list.Items {
		secret := &list.Items[i]
		key := secret.Labels[secretsmanager.LabelName] + " " + secret.Labels[secretsmanager.LabelRotationInitiation]
		if old, ok := now[key]; ok {
			return fmt.Errorf("%s and %s are both %s", old, secret.Name, key)
		}
		now[key] = secret.Name + fmt.Sprint(secret.Data)
	}
	for key, before := range r.secrets {
		name, _, _ := strings.Cut(key, " ")
		if now[key] != before && (now[key] != "" || !rotated(now, name)) {
			return fmt.Errorf("%s was %s, and is %q", key, before, now[key])
		}
	}
	r.secrets = now
	claim := named[corev1.PersistentVolumeClaim](controlPlane, volumeOfEtcd)
	exists := r.host().seed.Exists(claim)
	if r.volume != "" && (!exists || claim.UID != r.volume) && len(r.hosts) == 1 {
		return errors.New("the volume of etcd is gone")
	}
	r.volume = claim.UID
	return nil
}

// rotated reports whether a credential has been replaced on request, so that older ones may go.
func rotated(secrets map[string]string, name string) bool {
	for key := range secrets {
		if rest, ok := strings.CutPrefix(key, name+" "); ok && rest != "" {
			return true
		}
	}
	return false
}

// edit changes the spec of the Shoot.
func (r *shootRun) edit(what string, change func(*corev1beta1.Shoot)) {
	r.Change(what, r.garden, func(context.Context, client.Client) error {
		s := shootS()
		if !r.garden.Exists(s) {
			return nil
		}
		return r.garden.Edit(s, func() { change(s) })
	})
}

func (r *shootRun) configure() {
	r.version++
	version := r.version
	r.edit(fmt.Sprintf("configure version %d", version), func(s *corev1beta1.Shoot) { configure(s, version) })
}

// rotate requests new credentials, together with a change of the spec, as requests increase the generation.
func (r *shootRun) rotate(workers bool) {
	r.version++
	version, operations := r.version, corev1beta1.OperationRotateObservabilityCredentials
	if workers {
		operations += corev1beta1.OperationSeparator + corev1beta1.OperationRotateSSHKeypair
	}
	r.edit(fmt.Sprintf("rotate credentials, version %d", version), func(s *corev1beta1.Shoot) {
		configure(s, version)
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationOperation, operations)
	})
}

func (r *shootRun) hibernate(on bool) {
	r.edit(fmt.Sprintf("hibernation: %t", on), func(s *corev1beta1.Shoot) {
		s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: new(on)}
	})
}

// lives is what a user does until the Shoot is deleted.
func (r *shootRun) lives(pools ...string) {
	r.Change("create the Shoot", r.garden, create(newShoot(pools...)))
	if len(pools) > 0 {
		r.Change("create a load balancer", r.user, func(ctx context.Context, c client.Client) error {
			if !r.host().serving() {
				return nil
			}
			service := named[corev1.Service](metav1.NamespaceDefault, "lb")
			return client.IgnoreAlreadyExists(c.Create(ctx, service))
		})
	}
	for range 5 {
		switch r.Random.IntN(6) {
		case 0, 1, 2:
			r.configure()
		case 3:
			r.rotate(len(pools) > 0)
		case 4:
			r.hibernate(true)
		case 5:
			r.hibernate(false)
		}
	}
}

// settled: everything is as specified.
func (r *shootRun) settled() error {
	s := shootS()
	if !r.garden.Exists(s) {
		return errors.New("the Shoot is gone")
	}
	op := s.Status.LastOperation
	if op == nil || op.State != corev1beta1.LastOperationStateSucceeded || op.Progress != 100 || arriving(s) ||
		s.Status.ObservedGeneration != s.Generation || len(s.Status.LastErrors) > 0 ||
		s.Annotations[corev1beta1.AnnotationOperation] != "" {
		return fmt.Errorf("generation %d of %d: %+v, errors %+v, annotations %v", s.Status.ObservedGeneration, s.Generation,
			op, s.Status.LastErrors, s.Annotations)
	}
	return r.done(s)
}

// rests fails if anything is written in hours in which nothing happens.
func (r *shootRun) rests() {
	writes := func() int {
		n := r.garden.Writes() + r.cloud.cloud.Writes()
		for _, h := range r.hosts {
			n += h.seed.Writes()
		}
		return n
	}
	r.Idle(time.Minute) // What has been put off is done by then.
	before := writes()
	r.Idle(3 * time.Hour)
	after := writes()
	r.Eventually(500, "nothing is written without a reason", func() error {
		return is(after == before, "%d writes have become %d", before, after)
	})
}

// removed: nothing of the Shoot is left in a seed or at the provider.
func (r *shootRun) removed() error {
	errs := []error{r.cloud.cloud.Gone(external()...)}
	for _, h := range r.hosts {
		errs = append(errs, h.seed.Gone(named[corev1.Namespace]("", controlPlane),
			named[extensionsv1alpha1.Cluster]("", controlPlane)))
	}
	return errors.Join(errs...)
}

// gone: nothing of the Shoot is left anywhere.
func (r *shootRun) gone() error {
	if err := errors.Join(r.garden.Gone(shootS()), r.removed()); err != nil {
		return err
	}
	left := &corev1.ConfigMapList{}
	inGarden := &corev1.ConfigMapList{}
	services := &corev1.ServiceList{}
	if err := errors.Join(r.user.List(context.Background(), left), r.user.List(context.Background(), services),
		r.garden.List(context.Background(), inGarden, client.InNamespace("garden-dev"))); err != nil {
		return err
	}
	services.Items = slices.DeleteFunc(services.Items, func(s corev1.Service) bool { return s.Name == "kubernetes" })
	return is(len(left.Items) == 0 && len(services.Items) == 0 && len(inGarden.Items) == 0,
		"left in the Shoot: %+v, %+v, in the garden: %+v", left.Items, services.Items, inGarden.Items)
}

// test is the life of a Shoot.
func (r *shootRun) test(pools ...string) {
	r.rules()
	r.Overlap()
	r.lives(pools...)
	if r.Random.IntN(4) > 0 { // Otherwise it is deleted whatever its state is.
		r.Faults(300)
		r.cloud.faulty = false
		r.Eventually(3000, "the Shoot is as specified", r.settled)
		r.rests()
		r.cloud.faulty = true
	}
	r.Change("delete the Shoot", r.garden, remove(shootS()))
	r.Faults(250)
	r.cloud.faulty = false
	r.Eventually(3000, "the Shoot is gone", r.gone)
	r.rests()
}

// Whatever fails in the life of a Shoot without machines, it becomes what its owner requests, and leaves nothing.
func TestSimulateWorkerlessShoots(t *testing.T) {
	sim.RunSeeds(t, seedsOfWorkerless, func(w *sim.World) { newShootRun(w, "a").test() })
}

// The same for a Shoot with machines and a load balancer, of which nothing is lost at the provider.
func TestSimulateShoots(t *testing.T) {
	sim.RunSeeds(t, seedsWithPool, func(w *sim.World) { newShootRun(w, "a").test("pool") })
}
