package shoot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func lastly(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Status.LastOperation = &corev1beta1.LastOperation{Type: kind, State: state}
	}
}

func asked(operations string) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Annotations = map[string]string{corev1beta1.AnnotationOperation: operations}
	}
}

func shootWith(changes ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{}
	s.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "pool"}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestOperations(t *testing.T) {
	done := lastly(corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateSucceeded)
	failed := lastly(corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateFailed)
	noSSH := func(s *corev1beta1.Shoot) {
		s.Spec.Provider.WorkersSettings = &corev1beta1.WorkersSettings{SSHAccess: &corev1beta1.SSHAccess{Enabled: false}}
	}
	workerless := func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers = nil }
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		bump  bool
		rest  string
	}{
		"none":                                 {shootWith(done), false, ""},
		"before the first operation":           {shootWith(asked("reconcile")), false, "reconcile"},
		"reconcile":                            {shootWith(done, asked("reconcile")), true, ""},
		"reconcile of a failed Shoot":          {shootWith(failed, asked("reconcile")), false, "reconcile"},
		"retry":                                {shootWith(failed, asked("retry")), true, ""},
		"retry of a Shoot that has not failed": {shootWith(done, asked("retry")), false, "retry"},
		"retry with others":                    {shootWith(failed, asked("retry;reconcile")), false, "retry;reconcile"},
		"maintain":                             {shootWith(done, asked("maintain")), false, "maintain"},
		"force": {
			shootWith(done, asked("force-in-place-update")), false, "force-in-place-update",
		},
		"a rotation": {shootWith(done, asked("rotate-ca-start")), true, "rotate-ca-start"},
		"a rotation with reconcile": {
			shootWith(done, asked("reconcile;rotate-ca-start")), true, "rotate-ca-start",
		},
		"a rollout": {
			shootWith(done, asked("rollout-workers=pool")), true, "rollout-workers=pool",
		},
		"a rollout for a rotation": {
			shootWith(done, asked("rotate-rollout-workers=pool")), true, "rotate-rollout-workers=pool",
		},
		"SSH keys":                  {shootWith(done, asked("rotate-ssh-keypair")), true, "rotate-ssh-keypair"},
		"SSH keys that nobody has":  {shootWith(done, asked("rotate-ssh-keypair"), noSSH), false, ""},
		"SSH keys without machines": {shootWith(done, asked("rotate-ssh-keypair"), workerless), false, ""},
		"SSH keys that do not exist, and others": {
			shootWith(done, asked("rotate-ssh-keypair;rotate-ca-start"), noSSH), true, "rotate-ca-start",
		},
		"all credentials and some": {
			shootWith(done, asked("rotate-ca-start;rotate-credentials-start;rotate-ssh-keypair")), true,
			"rotate-credentials-start",
		},
		"all credentials and some, without rollout": {
			shootWith(done, asked("rotate-credentials-start-without-workers-rollout;rotate-ca-start-without-workers-rollout")),
			true, "rotate-credentials-start-without-workers-rollout",
		},
		"completion of all credentials and of one": {
			shootWith(done, asked("rotate-credentials-complete;rotate-serviceaccount-key-complete")), true,
			"rotate-credentials-complete",
		},
		"completion and another operation": {
			shootWith(done, asked("rotate-credentials-complete;rotate-ssh-keypair")), true,
			"rotate-credentials-complete;rotate-ssh-keypair",
		},
	} {
		bump := takeOperations(tc.shoot)
		if rest := tc.shoot.Annotations[corev1beta1.AnnotationOperation]; bump != tc.bump || rest != tc.rest {
			t.Errorf("%s: takeOperations() = %t and leaves %q, want %t and %q", name, bump, rest, tc.bump, tc.rest)
		}
	}
}

func TestOperationsAreRequestedOnce(t *testing.T) {
	s := shootWith()
	s.Annotations = map[string]string{
		corev1beta1.AnnotationOperation:            "rotate-ca-start;reconcile;rotate-ca-start",
		corev1beta1.AnnotationMaintenanceOperation: "reconcile; reconcile",
		"other": "a;a",
	}
	deduplicateOperations(s)
	want := map[string]string{
		corev1beta1.AnnotationOperation: "rotate-ca-start;reconcile", corev1beta1.AnnotationMaintenanceOperation: "reconcile",
		"other": "a;a",
	}
	if diff := cmp.Diff(want, s.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGenerationOfAnUpdate(t *testing.T) {
	purpose := func(s *corev1beta1.Shoot) { s.Spec.Purpose = ptr.To(corev1beta1.ShootPurposeTesting) }
	confined := func(s *corev1beta1.Shoot) {
		s.Spec.Maintenance = &corev1beta1.Maintenance{ConfineSpecUpdateRollout: ptr.To(true)}
	}
	hibernated := func(s *corev1beta1.Shoot) { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)} }
	notHibernated := func(s *corev1beta1.Shoot) { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(false)} }
	deleted := func(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{} }
	forced := func(value string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			s.Annotations = map[string]string{corev1beta1.AnnotationConfirmationForceDeletion: value}
		}
	}
	done := lastly(corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateSucceeded)
	for name, tc := range map[string]struct {
		now, old []func(*corev1beta1.Shoot)
		bump     bool
		rest     string
	}{
		"nothing":                         {},
		"the spec":                        {now: list(purpose), bump: true},
		"the spec, confined":              {now: list(purpose, confined), old: list(confined)},
		"hibernation, confined":           {now: list(hibernated, confined), old: list(confined), bump: true},
		"waking up, confined":             {now: list(confined), old: list(hibernated, confined), bump: true},
		"hibernation explicitly disabled": {now: list(notHibernated, confined), old: list(confined)},
		"confinement given up":            {old: list(confined), bump: true},
		"deletion":                        {now: list(deleted), bump: true},
		"deletion that continues":         {now: list(deleted), old: list(deleted)},
		"forced deletion":                 {now: list(deleted, forced("yes")), old: list(deleted)},
		"forced deletion, confirmed":      {now: list(deleted, forced("true")), old: list(deleted), bump: true},
		"forced deletion, still":          {now: list(deleted, forced("true")), old: list(deleted, forced("1"))},
		"an operation":                    {now: list(done, asked("reconcile")), old: list(done), bump: true},
		"an operation sent with the spec": {
			now: list(done, asked("reconcile"), purpose), old: list(done), bump: true, rest: "reconcile",
		},
	} {
		now := shootWith(tc.now...)
		bump := prepareForUpdate(t.Context(), now, shootWith(tc.old...))
		if rest := now.Annotations[corev1beta1.AnnotationOperation]; bump != tc.bump || rest != tc.rest {
			t.Errorf("%s: bump = %t and operation %q, want %t and %q", name, bump, rest, tc.bump, tc.rest)
		}
	}
}

func list(changes ...func(*corev1beta1.Shoot)) []func(*corev1beta1.Shoot) { return changes }

func TestGenerationOfAStatusUpdate(t *testing.T) {
	rotation := func(phase corev1beta1.CredentialsRotationPhase, auto *bool) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			s.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
				ETCDEncryptionKey: &corev1beta1.ETCDEncryptionKeyRotation{Phase: phase, AutoCompleteAfterPrepared: auto},
			}}
		}
	}
	migrate := func(state corev1beta1.LastOperationState) func(*corev1beta1.Shoot) {
		return lastly(corev1beta1.LastOperationTypeMigrate, state)
	}
	for name, tc := range map[string]struct {
		now, old func(*corev1beta1.Shoot)
		want     bool
	}{
		"a migration continues":          {migrate("Processing"), migrate("Pending"), false},
		"a migration has succeeded":      {migrate("Succeeded"), migrate("Processing"), true},
		"a migration was cancelled":      {migrate("Aborted"), migrate("Error"), true},
		"a migration had succeeded":      {migrate("Succeeded"), migrate("Succeeded"), false},
		"a reconciliation has succeeded": {lastly("Reconcile", "Succeeded"), lastly("Reconcile", "Processing"), false},
		"a rotation waits for its user":  {rotation("Prepared", nil), rotation("Preparing", nil), false},
		"a rotation needs no user":       {rotation("Prepared", ptr.To(true)), rotation("Preparing", ptr.To(true)), true},
		"a rotation had needed no user":  {rotation("Prepared", ptr.To(true)), rotation("Prepared", ptr.To(true)), false},
		"a rotation prepares":            {rotation("Preparing", ptr.To(true)), func(*corev1beta1.Shoot) {}, false},
	} {
		if got := prepareForStatusUpdate(t.Context(), shootWith(tc.now), shootWith(tc.old)); got != tc.want {
			t.Errorf("%s: bump = %t", name, got)
		}
	}
}
