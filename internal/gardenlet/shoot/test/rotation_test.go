package test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func TestAllCredentialsAreRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	annotate := func(operation string) {
		before := s.DeepCopy()
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[corev1beta1.AnnotationOperation] = operation
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		s = w.run(s, succeeded)
		// Everything that the first pass has caused, such as a rotation that continues automatically, ends, too.
		s = w.run(s, succeeded)
	}
	bundle := func() int {
		m := &corev1.ConfigMap{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: s.Name + ".ca-cluster"}, m))
		return strings.Count(m.Data["ca.crt"], "BEGIN CERTIFICATE")
	}
	if n := bundle(); n != 1 {
		t.Fatalf("the bundle has %d certificates before the rotation", n)
	}

	annotate(corev1beta1.OperationRotateCredentialsStart)
	r := s.Status.Credentials.Rotation
	if r.CertificateAuthorities.Phase != corev1beta1.RotationPrepared ||
		r.ServiceAccountKey.Phase != corev1beta1.RotationPrepared {
		t.Errorf("phases = %s, %s, want both Prepared", r.CertificateAuthorities.Phase, r.ServiceAccountKey.Phase)
	}
	if r.SSHKeypair.LastCompletionTime == nil {
		t.Error("the SSH key pair was not rotated")
	}
	if n := bundle(); n != 2 {
		t.Errorf("the bundle has %d certificates while both count", n)
	}
	if _, left := s.Annotations[corev1beta1.AnnotationOperation]; left {
		t.Error("the operation annotation is still there")
	}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: s.Name + ".ssh-keypair.old"},
		&corev1.Secret{}))

	annotate(corev1beta1.OperationRotateCredentialsComplete)
	r = s.Status.Credentials.Rotation
	if r.CertificateAuthorities.Phase != corev1beta1.RotationCompleted ||
		r.ServiceAccountKey.Phase != corev1beta1.RotationCompleted {
		t.Errorf("phases = %s, %s, want both Completed", r.CertificateAuthorities.Phase, r.ServiceAccountKey.Phase)
	}
	if n := bundle(); n != 1 {
		t.Errorf("the bundle has %d certificates after the rotation", n)
	}
	// Since Kubernetes 1.34 the encryption key needs no second request.
	if p := r.ETCDEncryptionKey.Phase; p != corev1beta1.RotationCompleted {
		t.Errorf("phase of the encryption key = %s, want Completed", p)
	}
}

// Tokens in Secrets that ServiceAccounts list get a successor while a rotation is prepared, and are deleted while it is
// completed.
func TestListedTokensAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.settled(w.newShoot())
	account := func(name string, secrets ...string) *corev1.ServiceAccount {
		a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		for _, s := range secrets {
			a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
		}
		return a
	}
	token := func(name string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}
	}
	for _, o := range []client.Object{
		account("robot", "old", "registry"), account("plain"), token("old"), token("unlisted"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "registry"}},
	} {
		w.must(w.user.Create(w.ctx, o))
	}
	// The user's cluster has a clock of its own. The rotation begins after the tokens were created.
	w.clock.Step(max(0, time.Since(w.clock.Now())) + time.Minute)
	const label = "credentials.gardener.cloud/key-name"
	state := func() (robot *corev1.ServiceAccount, listed, tokens []string) {
		t.Helper()
		robot = &corev1.ServiceAccount{}
		w.must(w.user.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "robot"}, robot))
		for _, ref := range robot.Secrets {
			listed = append(listed, ref.Name)
		}
		all := &corev1.SecretList{}
		w.must(w.user.List(w.ctx, all, client.InNamespace("default")))
		for _, s := range all.Items {
			if s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == "robot" {
				tokens = append(tokens, s.Name)
			}
		}
		return robot, listed, tokens
	}

	s = w.settled(w.request(s, corev1beta1.OperationRotateServiceAccountKeyStart))
	robot, listed, tokens := state()
	if len(listed) != 3 || !strings.HasPrefix(listed[0], "robot-token-") ||
		!slices.Equal(listed[1:], []string{"old", "registry"}) || len(tokens) != 3 {
		t.Fatalf("when the rotation is prepared, the account lists %v, and there are tokens %v", listed, tokens)
	}
	if key := robot.Labels[label]; !w.generated(s, "service-account-key")[key] {
		t.Errorf("the label of the account names the key %q", key)
	}
	plain := &corev1.ServiceAccount{}
	w.must(w.user.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "plain"}, plain))
	if len(plain.Secrets) > 0 || len(plain.Labels) > 0 {
		t.Errorf("an account without Secrets has become %+v", plain)
	}

	s = w.settled(w.request(s, corev1beta1.OperationRotateServiceAccountKeyComplete))
	replacement := listed[0]
	robot, listed, tokens = state()
	if !slices.Equal(listed, []string{replacement, "registry"}) ||
		!slices.Equal(tokens, []string{replacement, "unlisted"}) {
		t.Errorf("when the rotation is completed, the account lists %v, and there are tokens %v", listed, tokens)
	}
	if _, left := robot.Labels[label]; left {
		t.Error("the label of the account is still there")
	}
	if p := s.Status.Credentials.Rotation.ServiceAccountKey.Phase; p != corev1beta1.RotationCompleted {
		t.Errorf("phase = %s, want Completed", p)
	}
}

func TestPoolsMayWaitForARotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a", "b"), succeeded)
	start := func(operation string) {
		before := s.DeepCopy()
		s.Annotations[corev1beta1.AnnotationOperation] = operation
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		s = w.run(s, succeeded)
	}
	s.Annotations = map[string]string{}
	start(corev1beta1.OperationRotateCAStartWithoutWorkersRollout)
	ca := s.Status.Credentials.Rotation.CertificateAuthorities
	if ca.Phase != corev1beta1.RotationWaitingForWorkersRollout || len(ca.PendingWorkersRollouts) != 2 {
		t.Fatalf("rotation = %+v, want to wait for both pools", ca)
	}
	start(corev1beta1.OperationRotateRolloutWorkersPrefix + "a")
	ca = s.Status.Credentials.Rotation.CertificateAuthorities
	if ca.Phase != corev1beta1.RotationWaitingForWorkersRollout || len(ca.PendingWorkersRollouts) != 1 {
		t.Errorf("rotation = %+v, want to wait for pool b", ca)
	}
	start(corev1beta1.OperationRotateRolloutWorkersPrefix + "b")
	if ca = s.Status.Credentials.Rotation.CertificateAuthorities; ca.Phase != corev1beta1.RotationPrepared {
		t.Errorf("rotation = %+v, want Prepared", ca)
	}
}

// The garden is restored from a backup that is older than a rotation: the credentials in use are adopted, and the
// status is repaired.
func TestRotationsSurviveARestoreOfTheGarden(t *testing.T) {
	t.Parallel()
	type phases [2]corev1beta1.CredentialsRotationPhase // Of the CAs and the encryption key.
	for name, tc := range map[string]struct {
		completed bool
		// backup is the status of the credentials in the backup.
		backup func(never, prepared *corev1beta1.ShootCredentials) *corev1beta1.ShootCredentials
		want   phases
	}{
		"prepared, back to never rotated": {
			backup: func(never, _ *corev1beta1.ShootCredentials) *corev1beta1.ShootCredentials { return never },
			want:   phases{corev1beta1.RotationPrepared, corev1beta1.RotationCompleted},
		},
		"completed, back to never rotated": {
			completed: true,
			backup:    func(never, _ *corev1beta1.ShootCredentials) *corev1beta1.ShootCredentials { return never },
			want:      phases{corev1beta1.RotationCompleted, corev1beta1.RotationCompleted},
		},
		"completed, back to prepared": {
			completed: true,
			backup:    func(_, prepared *corev1beta1.ShootCredentials) *corev1beta1.ShootCredentials { return prepared },
			want:      phases{corev1beta1.RotationPrepared, corev1beta1.RotationCompleted},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.settled(w.newShoot())
			never := s.Status.Credentials.DeepCopy()
			s = w.settled(w.request(s, corev1beta1.OperationRotateCredentialsStart))
			prepared := s.Status.Credentials.DeepCopy()
			if tc.completed {
				s = w.settled(w.request(s, corev1beta1.OperationRotateCredentialsComplete))
			}
			all := func() map[string]map[string]bool {
				out := map[string]map[string]bool{}
				for _, name := range []string{"ca", "ca-client", "service-account-key", "kube-apiserver-etcd-encryption-key"} {
					out[name] = w.generated(s, name)
				}
				return out
			}
			initiated, inUse := s.Status.Credentials.Rotation.CertificateAuthorities.LastInitiationTime, all()

			s.Status.Credentials = tc.backup(never, prepared)
			w.must(w.Client.Status().Update(w.ctx, s))
			if !tc.completed { // The backup also has the request for the rotation.
				s = w.request(s, corev1beta1.OperationRotateCAStart)
			}
			s = w.settled(w.changeSpec(s))
			if got := all(); !reflect.DeepEqual(got, inUse) {
				t.Errorf("Secrets = %v, want %v", got, inUse)
			}
			r := s.Status.Credentials.Rotation
			if got := (phases{r.CertificateAuthorities.Phase, r.ETCDEncryptionKey.Phase}); got != tc.want {
				t.Errorf("phases = %v, want %v", got, tc.want)
			}
			if got := r.CertificateAuthorities.LastInitiationTime; !got.Equal(initiated) {
				t.Errorf("initiation = %s, want %s", got, initiated)
			}
		})
	}
}

// The configuration of the nodes has exactly the SSH keys that the garden has.
func TestSSHKeysReachNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	published := func(suffix string) string {
		secret := &corev1.Secret{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: s.Name + suffix}, secret))
		return string(secret.Data["id_rsa.pub"])
	}
	check := func(when, want string) {
		t.Helper()
		configs := &extensionsv1alpha1.OperatingSystemConfigList{}
		w.must(w.Client.List(w.ctx, configs, client.InNamespace(s.Status.TechnicalID)))
		if len(configs.Items) != 2 {
			t.Fatalf("there are %d configurations, want 2", len(configs.Items))
		}
		for _, c := range configs.Items {
			got := ""
			for _, f := range c.Spec.Files {
				if f.Path == extensionsv1alpha1.AuthorizedKeysFile {
					got = f.Content.Inline.Data
				}
			}
			if c.Spec.Purpose == extensionsv1alpha1.OperatingSystemConfigPurposeProvision {
				if got != "" {
					t.Errorf("%s the user data has keys:\n%s", when, got)
				}
			} else if got != want {
				t.Errorf("%s the keys of nodes are\n%s\nwant\n%s", when, got, want)
			}
		}
	}
	first := published(".ssh-keypair")
	if !strings.HasPrefix(first, "ssh-rsa ") {
		t.Fatalf("the key in the garden is %q", first)
	}
	check("at first", first)
	s = w.settled(w.request(s, corev1beta1.OperationRotateSSHKeypair))
	second := published(".ssh-keypair")
	if second == first || published(".ssh-keypair.old") != first {
		t.Errorf("after a rotation the garden has\n%s\nbefore it had\n%s", second, published(".ssh-keypair.old"))
	}
	check("after a rotation", second+first)
	s = w.settled(w.request(s, corev1beta1.OperationRotateSSHKeypair))
	third := published(".ssh-keypair")
	check("after the next rotation", third+second)
	access := func(enabled bool) {
		before := s.DeepCopy()
		s.Spec.Provider.WorkersSettings = &corev1beta1.WorkersSettings{SSHAccess: &corev1beta1.SSHAccess{Enabled: enabled}}
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
		s = w.settled(s)
	}
	gone := func(suffixes ...string) {
		t.Helper()
		for _, suffix := range suffixes {
			err := w.Client.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: s.Name + suffix}, &corev1.Secret{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("reading the useless key %s ends with %v, want that it is gone", suffix, err)
			}
		}
	}
	access(false)
	check("without access", "")
	gone(".ssh-keypair", ".ssh-keypair.old")
	access(true)
	fourth := published(".ssh-keypair")
	if fourth == third {
		t.Error("with access again the key is the same")
	}
	check("with access again", fourth)
	gone(".ssh-keypair.old")
}
