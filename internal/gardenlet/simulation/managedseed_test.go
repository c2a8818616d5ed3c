package simulation

import (
	"context"
	"crypto"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/gardenlet/access"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/gardenlet/managedseed"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/test/sim"
)

const (
	gardenletKubeconfig = "gardenlet-kubeconfig-garden"
	parentConfiguration = `
apiVersion: gardenlet.config.gardener.cloud/v1alpha1
kind: GardenletConfiguration
gardenClientConnection: {kubeconfigSecret: {namespace: garden, name: parent}}
seedConfig: {metadata: {name: a}, spec: {provider: {type: local}}}
`
	certificateOf = "certificate for the request "
)

// gardenServer is the address of the garden.
type gardenServer struct{}

// Garden implements managedseed.Garden.
func (gardenServer) Garden(context.Context) (pki.Kubeconfig, error) {
	return pki.Kubeconfig{Server: "https://garden.invalid"}, nil
}

// managedRun is a garden with the ManagedSeed m, whose Shoot m has its control plane in a seed.
type managedRun struct {
	*sim.World
	garden, seed *sim.Cluster
	installed    *corev1.ConfigMap              // What the resource-manager of the Shoot has applied.
	others       map[client.Object]*sim.Cluster // As they were created.

	signed        int
	keptFinalizer bool   // Somebody has added a finalizer to m.
	certificate   string // The one in the kubeconfig of the gardenlet; "" if there is none.
	seen          string // The version of the kubeconfig with this certificate.
}

func newManagedRun(w *sim.World, parent *config.GardenletConfiguration) *managedRun {
	r := &managedRun{
		World: w, garden: w.Cluster("garden", sim.Scheme()), seed: w.Cluster("seed", sim.Scheme()),
		installed: named[corev1.ConfigMap]("shoot", "installed"), others: map[client.Object]*sim.Cluster{},
	}
	r.garden.AddNamespaces("garden")
	r.seed.AddNamespaces(controlPlane, "shoot--dev--other", "shoot")
	w.Process("gardenlet", r.garden, func(p *sim.Process) error {
		direct := p.In(r.garden).Direct()
		return (&managedseed.Reconciler{
			Garden: direct, Seed: p.In(r.seed).Direct(), Events: p.GetEventRecorder("gardenlet"), Clock: w.Clock(),
			SeedName: "a", Parent: managedseed.Parent{Config: parent, Image: "registry.invalid/hortus:1"},
			Server: gardenServer{}, Issuer: &access.Issuer{Garden: direct, Clock: w.Clock()},
		}).AddToManager(p)
	})
	shoot, other := named[corev1beta1.Shoot]("garden", "m"), named[corev1beta1.Shoot]("garden", "other")
	shoot.Spec.SeedName, shoot.Status.SeedName, shoot.Status.TechnicalID = new("a"), new("a"), controlPlane
	other.Spec.SeedName, other.Status.SeedName, other.Status.TechnicalID = new("red"), new("red"), "shoot--dev--other"
	r.garden.Add(shoot, other)
	w.Actor("the garden answers requests for certificates", r.garden, r.sign)
	w.Actor("the resource-manager works", r.seed, func(ctx context.Context, c client.Client) error {
		return manage(ctx, r.seed, c, resourceIn(controlPlane), secretIn(controlPlane), r.installed)
	})
	w.Actor("the new gardenlet works", r.garden, r.gardenlet)
	return r
}

// managed is a ManagedSeed whose Seed has a label with the version.
func managed(name string, version int) *seedmanagementv1alpha1.ManagedSeed {
	m := named[seedmanagementv1alpha1.ManagedSeed]("garden", name)
	m.Spec.Shoot = &seedmanagementv1alpha1.Shoot{Name: name}
	m.Spec.Gardenlet.Config = &runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"seedConfig":{"metadata":{"labels":{"example.com/version":"version-%d"}},"spec":{"provider":{"type":"local"}}}}`,
		version)}
	seedmanagementv1alpha1.SetDefaultsManagedSeed(m)
	return m
}

func resourceIn(namespace string) *resourcesv1alpha1.ManagedResource {
	return named[resourcesv1alpha1.ManagedResource](namespace, "gardenlet")
}

func secretIn(namespace string) *corev1.Secret {
	return named[corev1.Secret](namespace, managedresource.SecretName("gardenlet"))
}

// sign does what the garden does: it approves requests for a ManagedSeed that stays, and signs them. Every third
// signature fails.
func (r *managedRun) sign(ctx context.Context, c client.Client) error {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		request := &list.Items[i]
		if len(request.Status.Conditions) > 0 {
			continue
		}
		kind := certificatesv1.CertificateApproved
		m := managed("m", 0)
		switch r.signed++; {
		case !r.garden.Exists(m) || m.DeletionTimestamp != nil:
			kind = certificatesv1.CertificateDenied
		case r.signed%3 == 0:
			kind = certificatesv1.CertificateFailed
		default:
			request.Status.Certificate = []byte(certificateOf + request.Name)
		}
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: kind, Status: corev1.ConditionTrue,
		}}
		if err := c.Status().Update(ctx, request); err != nil {
			return err
		}
	}
	return nil
}

// gardenlet does what an installed gardenlet does: it registers its Seed, which the API server refuses when the
// ManagedSeed is being deleted, and releases the Seed at the end.
func (r *managedRun) gardenlet(ctx context.Context, c client.Client) error {
	if !r.seed.Exists(r.installed.DeepCopy()) {
		return nil
	}
	m, seed := managed("m", 0), named[corev1beta1.Seed]("", "m")
	switch {
	case !r.garden.Exists(seed):
		if !r.garden.Exists(m) || m.DeletionTimestamp != nil {
			return nil
		}
		seed.Finalizers = []string{corev1beta1.FinalizerName}
		return c.Create(ctx, seed)
	case seed.DeletionTimestamp != nil:
		return r.garden.Edit(seed, func() { seed.Finalizers = nil })
	}
	return nil
}

// addOthers creates objects that the gardenlet must not touch.
func (r *managedRun) addOthers() {
	onOtherSeed := managed("other", 1)
	r.garden.Add(onOtherSeed, named[corev1beta1.Seed]("", "other"))
	r.others[onOtherSeed] = r.garden
	r.others[named[corev1beta1.Seed]("", "other")] = r.garden
	network := named[resourcesv1alpha1.ManagedResource](controlPlane, "network")
	network.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: managedresource.SecretName("network")}}
	credentials := named[corev1.Secret](controlPlane, managedresource.SecretName("network"))
	for _, o := range []client.Object{network, credentials, resourceIn("shoot--dev--other"),
		secretIn("shoot--dev--other"), named[corev1.Secret]("shoot--dev--other", gardenletKubeconfig)} {
		r.seed.Add(o)
		r.others[o] = r.seed
	}
}

// kubeconfig returns the certificate in the kubeconfig of the gardenlet, or an error if it is not for its key.
func (r *managedRun) kubeconfig() (string, error) {
	secret := named[corev1.Secret](controlPlane, gardenletKubeconfig)
	if !r.seed.Exists(secret) {
		return "", nil
	}
	if secret.ResourceVersion == r.seen {
		return r.certificate, nil
	}
	r.seen = secret.ResourceVersion
	c, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		return "", err
	}
	private, err := keyutil.ParsePrivateKeyPEM(c.KeyData)
	if err != nil {
		return "", err
	}
	request := named[certificatesv1.CertificateSigningRequest]("", strings.TrimPrefix(string(c.CertData), certificateOf))
	if !r.garden.Exists(request) {
		return "", fmt.Errorf("the certificate %q was not requested", c.CertData)
	}
	asked, err := csr.Parse(request.Spec.Request)
	if err != nil {
		return "", err
	}
	public, ok := private.(crypto.Signer).Public().(interface{ Equal(crypto.PublicKey) bool })
	return string(c.CertData), is(ok && public.Equal(asked.PublicKey) &&
		asked.Subject.CommonName == corev1beta1.SeedUserPrefix+"m", "the certificate %q is for another key", c.CertData)
}

// rules hold after each write.
func (r *managedRun) rules() {
	r.Always("the gardenlet stays while its Seed exists", func() error {
		mr := resourceIn(controlPlane)
		return is(!r.garden.Exists(named[corev1beta1.Seed]("", "m")) || r.seed.Exists(mr) && mr.DeletionTimestamp == nil,
			"it is being removed")
	})
	r.Always("the Seed stays until the ManagedSeed is deleted", func() error {
		m, seed := managed("m", 0), named[corev1beta1.Seed]("", "m")
		return is(!r.garden.Exists(seed) || seed.DeletionTimestamp == nil || r.garden.Exists(m) && m.DeletionTimestamp != nil,
			"it is being deleted")
	})
	r.Always("the finalizer stays while something is installed", func() error {
		m := managed("m", 0)
		kept := r.garden.Exists(m) && controllerutil.ContainsFinalizer(m, corev1beta1.FinalizerName)
		if kept {
			return nil
		}
		return r.removed()
	})
	r.Always("the certificate is for the key, and stays unless another one is requested", func() error {
		now, err := r.kubeconfig()
		if err != nil {
			return err
		}
		before, m := r.certificate, managed("m", 0)
		r.certificate = now
		asked := r.garden.Exists(m) &&
			m.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRenewKubeconfig
		return is(asked || before == "" || now == "" || now == before, "%q has become %q", before, now)
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
	r.Always("the finalizer of somebody else stays", func() error {
		m := managed("m", 0)
		return is(!r.keptFinalizer || r.garden.Exists(m) && controllerutil.ContainsFinalizer(m, foreignFinalizer),
			"finalizers %v", m.Finalizers)
	})
}

// edit changes m, if it exists.
func (r *managedRun) edit(change func(*seedmanagementv1alpha1.ManagedSeed)) change {
	return func(context.Context, client.Client) error {
		m := managed("m", 0)
		if !r.garden.Exists(m) {
			return nil
		}
		return r.garden.Edit(m, func() { change(m) })
	}
}

func (r *managedRun) configure(version int) change {
	return r.edit(func(m *seedmanagementv1alpha1.ManagedSeed) { m.Spec = managed("m", version).Spec })
}

func (r *managedRun) renew() change {
	return r.edit(func(m *seedmanagementv1alpha1.ManagedSeed) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, corev1beta1.AnnotationOperation, corev1beta1.OperationRenewKubeconfig)
	})
}

// operate changes the last operation of the Shoot.
func (r *managedRun) operate(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) change {
	return func(context.Context, client.Client) error {
		s := named[corev1beta1.Shoot]("garden", "m")
		return r.garden.EditStatus(s, func() {
			s.Status.LastOperation = &corev1beta1.LastOperation{
				Type: kind, State: state, LastUpdateTime: metav1.NewTime(r.Clock().Now()),
			}
		})
	}
}

// registered fails unless the gardenlet of the version is installed, and the ManagedSeed reports that.
func (r *managedRun) registered(version int) error {
	m, secret, current := managed("m", 0), secretIn(controlPlane), r.installed.DeepCopy()
	if !r.garden.Exists(m) || !r.garden.Exists(named[corev1beta1.Seed]("", "m")) || !r.seed.Exists(secret) ||
		!r.seed.Exists(current) {
		return is(false, "something does not exist; the status is %+v", m.Status)
	}
	for _, kind := range []corev1beta1.ConditionType{
		seedmanagementv1alpha1.ManagedSeedShootReconciled, seedmanagementv1alpha1.SeedRegistered,
	} {
		if c := corev1beta1.FindCondition(m.Status.Conditions, kind); c == nil || c.Status != corev1beta1.ConditionTrue ||
			strings.Contains(c.Message, "being changed") {
			return is(false, "condition %s is %+v", kind, c)
		}
	}
	objects := string(current.BinaryData["objects"])
	return is(m.Status.ObservedGeneration == m.Generation && m.Annotations[corev1beta1.AnnotationOperation] == "" &&
		strings.Contains(objects, fmt.Sprintf("version-%d", version)),
		"generation %d, annotations %v, status %+v, installed:\n%s", m.Generation, m.Annotations, m.Status, objects)
}

// removed fails unless nothing of the gardenlet is left in the seed.
func (r *managedRun) removed() error {
	return r.seed.Gone(resourceIn(controlPlane), secretIn(controlPlane), r.installed.DeepCopy(),
		named[corev1.Secret](controlPlane, gardenletKubeconfig))
}

// rests fails if anything is written in hours in which nothing happens.
func (r *managedRun) rests() {
	r.T.Helper()
	versions := func() (out []string) {
		m := managed("m", 0)
		if r.garden.Exists(m) {
			out = append(out, m.ResourceVersion)
		}
		for _, o := range []client.Object{resourceIn(controlPlane), secretIn(controlPlane),
			named[corev1.Secret](controlPlane, gardenletKubeconfig)} {
			if r.seed.Exists(o) {
				out = append(out, o.GetResourceVersion())
			}
		}
		return out
	}
	before := versions()
	r.Idle(3 * time.Hour)
	after := versions()
	r.Eventually(5, "nothing is written without a reason", func() error {
		return is(slices.Equal(before, after), "versions %v have become %v", before, after)
	})
}

// A Shoot that becomes a Seed gets a gardenlet with a certificate of its own, which stays until the Seed is gone.
// Nothing of it is left when the ManagedSeed is gone, even if it is deleted before the Seed is registered.
func TestSimulateManagedSeeds(t *testing.T) {
	parent, err := config.Parse([]byte(parentConfiguration))
	if err != nil {
		t.Fatal(err)
	}
	sim.Run(t, func(w *sim.World) {
		r := newManagedRun(w, parent)
		r.addOthers()
		r.rules()
		w.Overlap()
		const (
			creation, reconciliation = corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeReconcile
			processing, succeeded    = corev1beta1.LastOperationStateProcessing, corev1beta1.LastOperationStateSucceeded
			failing                  = corev1beta1.LastOperationStateError
		)
		w.Change("make the ManagedSeed", r.garden, create(managed("m", 1)))
		w.Change("the Shoot is being created", r.garden, r.operate(creation, processing))
		w.Change("the Shoot has an error", r.garden, r.operate(creation, failing))
		w.Change("the Shoot is created", r.garden, r.operate(creation, succeeded))
		if w.Random.IntN(3) > 0 { // Otherwise it is deleted at once.
			r.lives(reconciliation, processing, failing, succeeded)
		}
		w.Change("somebody's finalizer is removed", r.garden, r.edit(func(m *seedmanagementv1alpha1.ManagedSeed) {
			r.keptFinalizer = false
			controllerutil.RemoveFinalizer(m, foreignFinalizer)
		}))
		w.Change("delete the ManagedSeed", r.garden, remove(managed("m", 0)))
		w.Change("the Shoot has an error", r.garden, r.operate(reconciliation, failing))
		w.Faults(80)
		w.Eventually(200, "the ManagedSeed and its Seed are gone", func() error {
			if err := r.garden.Gone(managed("m", 0), named[corev1beta1.Seed]("", "m")); err != nil {
				return err
			}
			return r.removed()
		})
		r.rests()
	})
}

// lives is the time between the creation of the Shoot and the deletion of the ManagedSeed.
func (r *managedRun) lives(
	operation corev1beta1.LastOperationType, processing, failing, succeeded corev1beta1.LastOperationState,
) {
	r.Change("configure version 2", r.garden, r.configure(2))
	r.Change("the Shoot is reconciled", r.garden, r.operate(operation, processing))
	r.Change("renew the certificate", r.garden, r.renew())
	r.Change("the Shoot has an error", r.garden, r.operate(operation, failing))
	r.Change("configure version 3", r.garden, r.configure(3))
	r.Change("somebody adds a finalizer", r.garden, r.edit(func(m *seedmanagementv1alpha1.ManagedSeed) {
		r.keptFinalizer = controllerutil.AddFinalizer(m, foreignFinalizer)
	}))
	r.Change("configure version 4", r.garden, r.configure(4))
	r.Change("the reconciliation has ended", r.garden, r.operate(operation, succeeded))
	r.Faults(150)
	r.Eventually(200, "the Seed is registered", func() error { return r.registered(4) })
	r.rests()

	certificates := []string{r.certificate}
	for range 2 {
		r.Change("renew the certificate again", r.garden, r.renew())
		r.Faults(30)
		r.Idle(5 * time.Minute) // Soon enough for a request that the gardenlet has in memory.
		certificates = append(certificates, r.certificate)
	}
	r.Eventually(20, "there is another certificate each time", func() error {
		return is(certificates[0] != certificates[1] && certificates[1] != certificates[2], "%q", certificates)
	})
}
