package test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/controllermanager/bastion"
	"hortus.dev/hortus/internal/controllermanager/binding"
	"hortus.dev/hortus/internal/controllermanager/csr"
	"hortus.dev/hortus/internal/controllermanager/managedseed"
	"hortus.dev/hortus/internal/controllermanager/namespacedcloudprofile"
	"hortus.dev/hortus/internal/controllermanager/project/stale"
	"hortus.dev/hortus/internal/controllermanager/protection"
	"hortus.dev/hortus/test/sim"
)

type changes = func(context.Context, client.Client) error

func create(o client.Object) changes {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
}

func remove(o client.Object) changes {
	return func(ctx context.Context, c client.Client) error { return client.IgnoreNotFound(c.Delete(ctx, o)) }
}

// A project that is used again just before its deletion is kept.
func TestSimulateStaleProjects(t *testing.T) {
	config := stale.Default()
	config.SyncPeriod = 24 * time.Hour
	simulate(t, func(p *sim.Process) error {
		r := &stale.Reconciler{Garden: p.GetClient(), Live: p.GetAPIReader(), Clock: clockOf(p), Config: config}
		return r.SetupWithManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		unused, used := named[corev1beta1.Project]("", "unused"), named[corev1beta1.Project]("", "used")
		for _, p := range []*corev1beta1.Project{unused, used} {
			p.Spec.Namespace = new("garden-" + p.Name)
			garden.AddNamespaces(*p.Spec.Namespace)
			garden.Add(p.DeepCopy())
		}
		s := named[corev1beta1.Shoot]("garden-used", "s")
		made := false
		w.Always("a project with a Shoot is not deleted", func() error {
			return is(!made || garden.Exists(used), "it is gone")
		})
		w.Idle(time.Duration(88+w.Random.IntN(2)) * 24 * time.Hour)
		w.Idle(time.Duration(w.Random.IntN(24*60)) * time.Minute)
		w.Change("make a Shoot", garden, func(ctx context.Context, c client.Client) error {
			if made = garden.Exists(used); made {
				return c.Create(ctx, s)
			}
			return nil
		})
		w.Faults(80)
		w.Eventually(500, "the unused project is gone", func() error { return garden.Gone(unused) })
	})
}

// An activity is recorded within an hour.
func TestSimulateProjectActivity(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&stale.Activity{Garden: p.GetClient(), Clock: clockOf(p)}).SetupWithManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		ns := named[corev1.Namespace]("", "garden-a")
		ns.Labels = map[string]string{corev1beta1.LabelProjectName: "a"}
		p := named[corev1beta1.Project]("", "a")
		garden.Add(p, ns)
		w.Idle(time.Minute)
		w.Change("make a Shoot", garden, create(named[corev1beta1.Shoot]("garden-a", "s")))
		w.Faults(60)
		w.Eventually(50, "the activity is noted", func() error {
			return is(garden.Exists(p) && p.Status.LastActivityTimestamp != nil, "status is %+v", p.Status)
		})
	})
}

// Objects that a Shoot refers to are kept until the Shoot is deleted.
func TestSimulateProtection(t *testing.T) {
	simulate(t, func(p *sim.Process) error { return protection.AddToManager(p) },
		func(w *sim.World, garden *sim.Cluster) {
			profile, unused := named[corev1beta1.CloudProfile]("", "p"), named[corev1beta1.CloudProfile]("", "unused")
			quota := named[corev1beta1.Quota]("garden-dev", "q")
			b := named[corev1beta1.SecretBinding]("garden-dev", "b")
			b.Quotas = []corev1.ObjectReference{{Namespace: "garden-dev", Name: "q"}}
			s := shoot("s")
			s.Spec.CloudProfileName, s.Spec.SecretBindingName = new("p"), new("b")
			garden.Add(profile, unused)
			w.Always("what is used exists", func() error {
				if garden.Exists(shoot("s")) && !(garden.Exists(profile.DeepCopy()) && garden.Exists(b.DeepCopy())) {
					return is(false, "the profile or the binding is gone")
				}
				return is(!garden.Exists(b.DeepCopy()) || garden.Exists(quota.DeepCopy()), "the quota is gone")
			})
			protected := func(o client.Object) { o.SetFinalizers([]string{corev1beta1.FinalizerName}) }
			protected(quota)
			protected(b)
			if err := garden.Edit(profile, func() { protected(profile) }); err != nil {
				w.T.Fatal(err)
			}
			w.Change("make a quota", garden, create(quota.DeepCopy()))
			w.Change("make a binding", garden, create(b.DeepCopy()))
			w.Change("make a Shoot", garden, create(s.DeepCopy()))
			for _, o := range []client.Object{profile, unused, quota, b} {
				w.Change("delete "+o.GetName(), garden, remove(o))
			}
			w.Faults(150)
			w.Eventually(100, "unused objects are gone", func() error { return garden.Gone(unused.DeepCopy()) })
			w.Change("delete the Shoot", garden, remove(shoot("s")))
			w.Faults(60)
			w.Eventually(100, "nothing is left", func() error {
				return garden.Gone(profile.DeepCopy(), b.DeepCopy(), quota.DeepCopy())
			})
		})
}

// A ControllerDeployment is kept while an installation refers to it, also when its registration names another.
func TestSimulateProtectionOfDeployments(t *testing.T) {
	simulate(t, func(p *sim.Process) error { return protection.AddToManager(p) },
		func(w *sim.World, garden *sim.Cluster) {
			former := named[corev1beta1.ControllerDeployment]("", "former")
			former.Finalizers = []string{corev1beta1.FinalizerControllerDeployment}
			r := named[corev1beta1.ControllerRegistration]("", "r")
			r.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{
				DeploymentRefs: []corev1beta1.DeploymentRef{{Name: "newer"}},
			}
			i := named[corev1beta1.ControllerInstallation]("", "i")
			i.Spec.RegistrationRef.Name, i.Spec.DeploymentRef = "r", &corev1.ObjectReference{Name: "former"}
			garden.Add(former, r, i)
			changed := false
			w.Always("what is used exists", func() error {
				return is(changed || garden.Exists(former.DeepCopy()), "the deployment is gone")
			})
			w.Change("delete the deployment", garden, remove(former))
			w.Faults(60)
			w.Change("deploy the other", garden, func(context.Context, client.Client) error {
				changed = true
				return garden.Edit(i, func() { i.Spec.DeploymentRef.Name = "newer" })
			})
			w.Faults(60)
			w.Eventually(100, "the deployment is gone", func() error { return garden.Gone(former.DeepCopy()) })
		})
}

// Credentials are marked as long as a binding refers to them.
func TestSimulateBindings(t *testing.T) {
	simulate(t, func(p *sim.Process) error { return binding.AddToManager(p) },
		func(w *sim.World, garden *sim.Cluster) {
			bindingOf := func(name, secret string) *corev1beta1.SecretBinding {
				b := named[corev1beta1.SecretBinding]("garden-dev", name)
				b.SecretRef.Name, b.Provider = secret, &corev1beta1.SecretBindingProvider{Type: "local"}
				return b
			}
			garden.Add(secret("shared"), secret("single"))
			w.Change("make binding a", garden, create(bindingOf("a", "shared")))
			w.Change("make binding b", garden, create(bindingOf("b", "shared")))
			w.Change("make binding c", garden, create(bindingOf("c", "single")))
			w.Change("delete binding c", garden, remove(bindingOf("c", "single")))
			w.Change("delete binding a", garden, remove(bindingOf("a", "shared")))
			w.Faults(150)
			marked := func(s *corev1.Secret) bool {
				return garden.Exists(s) && slices.Contains(s.Finalizers, corev1beta1.FinalizerSecretBinding) &&
					s.Labels[corev1beta1.LabelSecretBindingReference] == "true"
			}
			w.Eventually(100, "only the secret of binding b is marked", func() error {
				shared, single := secret("shared"), secret("single")
				return is(marked(shared) && !marked(single) && len(single.Finalizers) == 0, "%+v, %+v", shared, single)
			})
		})
}

// A NamespacedCloudProfile follows its parent.
func TestSimulateNamespacedCloudProfiles(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&namespacedcloudprofile.Reconciler{Garden: p.GetClient()}).AddToManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		parent := named[corev1beta1.CloudProfile]("", "p")
		parent.Spec.Kubernetes.Versions = []corev1beta1.ExpirableVersion{{Version: "1.35.4"}}
		child := named[corev1beta1.NamespacedCloudProfile]("garden-dev", "c")
		child.Spec.Parent = corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "p"}
		w.Change("make the child", garden, create(child.DeepCopy()))
		w.Change("make the parent", garden, create(parent.DeepCopy()))
		w.Change("offer a version", garden, func(context.Context, client.Client) error {
			return garden.Edit(parent, func() {
				parent.Spec.Kubernetes.Versions = append(parent.Spec.Kubernetes.Versions,
					corev1beta1.ExpirableVersion{Version: "1.36.3"})
			})
		})
		w.Faults(100)
		w.Eventually(50, "the child offers it", func() error {
			return is(garden.Exists(child) && len(child.Status.CloudProfileSpec.Kubernetes.Versions) == 2, "%+v",
				child.Status)
		})
	})
}

// The labels of ManagedSeeds name the seeds of their Shoots. The API server sets them, at each write.
func TestSimulateManagedSeeds(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&managedseed.Reconciler{Garden: p.GetClient()}).AddToManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		managed := named[seedmanagementv1alpha1.ManagedSeed]("garden", "m")
		managed.Spec.Shoot = &seedmanagementv1alpha1.Shoot{Name: "m"}
		s := named[corev1beta1.Shoot]("garden", "m")
		s.Spec.SeedName = new("a")
		labelled := func(name string) map[string]string {
			return map[string]string{corev1beta1.LabelPrefixSeedName + name: "true"}
		}
		managed.Labels = labelled("a")
		garden.Add(managed, s)
		w.Actor("the API server sets labels", garden, func(context.Context, client.Client) error {
			if !garden.Exists(s) || !garden.Exists(managed) {
				return nil
			}
			if want := labelled(*s.Spec.SeedName); !maps.Equal(managed.Labels, want) {
				return garden.Edit(managed, func() { managed.Labels = want })
			}
			return nil
		})
		w.Change("move the Shoot", garden, func(context.Context, client.Client) error {
			return garden.Edit(s, func() { s.Spec.SeedName = new("b") })
		})
		w.Faults(100)
		w.Eventually(50, "the labels name b", func() error {
			return is(garden.Exists(managed) && maps.Equal(managed.Labels, labelled("b")), "%v", managed.Labels)
		})
	})
}

// Bastions are deleted when they expire, not earlier, and when their Shoot moves, even if their seed is gone.
func TestSimulateBastions(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&bastion.Reconciler{Garden: p.GetClient(), Live: p.GetAPIReader(), Clock: clockOf(p)}).AddToManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		s := shoot("s")
		s.Spec.SeedName, s.Spec.Provider.Workers = new("a"), make([]corev1beta1.Worker, 1)
		alive := named[operationsv1alpha1.Bastion]("garden-dev", "alive")
		idle := named[operationsv1alpha1.Bastion]("garden-dev", "idle")
		for _, b := range []*operationsv1alpha1.Bastion{alive, idle} {
			b.Spec.ShootRef.Name, b.Spec.SeedName = "s", new("a")
			b.CreationTimestamp = now(w)
			b.Status.ExpirationTimestamp = new(metav1.NewTime(w.Clock().Now().Add(time.Hour)))
		}
		s.Status.SeedName, alive.Finalizers = new("a"), []string{corev1beta1.FinalizerName} // Of a gardenlet that is gone.
		garden.Add(s, alive.DeepCopy(), idle.DeepCopy())
		moves, until := false, w.Clock().Now().Add(time.Hour)
		w.Always("a Bastion that is kept alive stays", func() error {
			return is(moves || garden.Exists(alive) || !w.Clock().Now().Before(until), "it is gone")
		})
		w.Change("keep one alive", garden, func(context.Context, client.Client) error {
			if !w.Clock().Now().Before(until) {
				return nil // It has expired already.
			}
			until = w.Clock().Now().Add(20 * time.Hour).Truncate(time.Second) // As it is stored.
			return garden.EditStatus(alive, func() { alive.Status.ExpirationTimestamp = new(metav1.NewTime(until)) })
		})
		w.Faults(50)
		w.Idle(2 * time.Hour)
		w.Eventually(50, "the other one has expired", func() error { return is(!garden.Exists(idle), "it exists") })
		moves = true
		w.Change("move the Shoot", garden, func(context.Context, client.Client) error {
			return garden.Edit(s, func() { s.Spec.SeedName = new("b") })
		})
		w.Faults(50)
		w.Eventually(50, "the Bastion of the Shoot is being deleted", func() error {
			return is(garden.Exists(alive) && alive.DeletionTimestamp != nil, "it is %+v", alive.ObjectMeta)
		})
		w.Change("declare the seed gone", garden, func(context.Context, client.Client) error {
			return garden.Edit(s, func() { s.Annotations = map[string]string{corev1beta1.AnnotationSourceIsDead: "a"} })
		})
		w.Faults(50)
		w.Eventually(50, "the Bastion of the Shoot is gone", func() error { return is(!garden.Exists(alive), "it exists") })
	})
}

// A gardenlet gets a new certificate for its own seed, and none once the seed is deleted.
func TestSimulateCertificatesOfGardenlets(t *testing.T) {
	_, key, err := ed25519.GenerateKey(zeros{})
	if err != nil {
		t.Fatal(err)
	}
	request := func(name, seed, as string) *certificatesv1.CertificateSigningRequest {
		der, err := x509.CreateCertificateRequest(zeros{}, &x509.CertificateRequest{Subject: pkix.Name{
			CommonName: corev1beta1.SeedUserPrefix + as, Organization: []string{corev1beta1.SeedsGroup},
		}}, key)
		if err != nil {
			t.Fatal(err)
		}
		r := named[certificatesv1.CertificateSigningRequest]("", name)
		r.Spec = certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Username: corev1beta1.SeedUserPrefix + seed,
			Groups: []string{corev1beta1.SeedsGroup},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		}
		return r
	}
	simulate(t, func(p *sim.Process) error {
		r := &csr.Reconciler{Garden: p.GetClient(), Direct: p.GetAPIReader(), Clock: clockOf(p)}
		return r.AddToManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		garden.Add(seed("a"))
		w.Change("renew", garden, create(request("renewal", "a", "a")))
		w.Change("request another", garden, create(request("other", "a", "b")))
		w.Change("delete the seed", garden, remove(seed("a")))
		w.Change("renew again", garden, create(request("late", "a", "a")))
		verdict := func(name string) string {
			r := named[certificatesv1.CertificateSigningRequest]("", name)
			if !garden.Exists(r) || len(r.Status.Conditions) == 0 {
				return ""
			}
			out := string(r.Status.Conditions[0].Type)
			for _, c := range r.Status.Conditions[1:] {
				out += ", " + string(c.Type)
			}
			return out
		}
		w.Always("nobody gets the certificate of another seed or of a deleted one", func() error {
			other, late := verdict("other"), verdict("late")
			return is((other == "" || other == "Denied") && (late == "" || late == "Denied"), "%q, %q", other, late)
		})
		w.Faults(100)
		w.Eventually(50, "all is decided", func() error {
			first := verdict("renewal") // Denied if the seed had been deleted when it was read.
			return is((first == "Approved" || first == "Denied") && verdict("other") == "Denied" &&
				verdict("late") == "Denied", "%q, %q, %q", first, verdict("other"), verdict("late"))
		})
	})
}

// zeros make keys the same in each run.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
