package stale

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestDecide(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	day := func(n float64) *metav1.Time {
		return &metav1.Time{Time: created.Add(time.Duration(n * 24 * float64(time.Hour)))}
	}
	later := Default()
	later.ExpirationTimeDays = 100
	sooner := Default()
	sooner.ExpirationTimeDays = 20
	const period = 12 * time.Hour
	for name, tc := range map[string]struct {
		status corev1beta1.ProjectStatus
		use    string
		now    float64 // Days since the creation.
		config Config  // Empty: the default settings.
		want   decision
	}{
		"a new Project is not stale":            {now: 29, want: decision{again: period}},
		"it is checked when it could be stale":  {now: 29.75, want: decision{again: 6 * time.Hour}},
		"after 30 days without use it is stale": {now: 30, want: decision{since: day(30), again: period}},
		"activity puts it off": {
			now: 49, status: corev1beta1.ProjectStatus{LastActivityTimestamp: day(20)}, want: decision{again: period},
		},
		"but not for ever": {
			now: 50, status: corev1beta1.ProjectStatus{LastActivityTimestamp: day(20)},
			want: decision{since: day(50), again: period},
		},
		"a Project in use is not stale, however old": {now: 500, use: "Shoot a", want: decision{again: period},
			status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120)}},
		"activity after it was stale": {
			now: 45, status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30), LastActivityTimestamp: day(44.9)},
			want: decision{again: period},
		},
		"no deletion date in the first 14 days": {
			now: 43.75, status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30)},
			want: decision{since: day(30), again: 6 * time.Hour},
		},
		"then its deletion is announced": {
			now: 44, status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30)},
			want: decision{since: day(30), autoDelete: day(120), again: period},
		},
		"it stays until the date": {
			now: 119.75, status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120)},
			want: decision{since: day(30), autoDelete: day(120), again: 6 * time.Hour},
		},
		"it is deleted at the date": {
			now: 120, status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120)},
			want: decision{since: day(30), autoDelete: day(120), delete: true},
		},
		"a longer expiration counts at once": {
			now: 120, config: later, status: corev1beta1.ProjectStatus{
				StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120),
			}, want: decision{since: day(30), autoDelete: day(130), again: period},
		},
		"a shorter one does not change an announced date": {
			now: 60, config: sooner, status: corev1beta1.ProjectStatus{
				StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120),
			}, want: decision{since: day(30), autoDelete: day(120), again: period},
		},
		"a date is announced in time, however late": {now: 200,
			status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30)},
			want:   decision{since: day(30), autoDelete: day(276), again: period}},
		"and with shorter periods, too": {now: 60, config: sooner,
			status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30)},
			want:   decision{since: day(30), autoDelete: day(66), again: period}},
		"a longer grace period removes a date": {now: 60,
			config: Config{MinimumLifetimeDays: 30, GracePeriodDays: 40, ExpirationTimeDays: 90, SyncPeriod: period},
			status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120)},
			want:   decision{since: day(30), again: period}},
		"a longer minimum makes it count as used": {now: 60,
			config: Config{MinimumLifetimeDays: 90, GracePeriodDays: 14, ExpirationTimeDays: 90, SyncPeriod: period},
			status: corev1beta1.ProjectStatus{StaleSinceTimestamp: day(30), StaleAutoDeleteTimestamp: day(120)},
			want:   decision{again: period}},
	} {
		t.Run(name, func(t *testing.T) {
			config := tc.config
			if config == (Config{}) {
				config = Default()
			}
			p := &corev1beta1.Project{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: created}}, Status: tc.status,
			}
			if diff := cmp.Diff(tc.want, decide(p, tc.use, day(tc.now).Time, config),
				cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("decide() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExempt(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace, annotation string
		want                  bool
	}{
		"a project":                    {"garden-dev", "", false},
		"the garden":                   {"garden", "", true},
		"an exempt Project":            {"garden-dev", "true", true},
		"a Project that is not exempt": {"garden-dev", "false", false},
		"an invalid value":             {"garden-dev", "maybe", false},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: tc.namespace, Annotations: map[string]string{corev1beta1.AnnotationProjectSkipStaleCheck: tc.annotation},
		}}
		if why := exempt(ns); (why != "") != tc.want {
			t.Errorf("%s: exempt() = %q", name, why)
		}
	}
}

func TestUsedBy(t *testing.T) {
	shoots := []corev1beta1.Shoot{
		{Spec: corev1beta1.ShootSpec{SecretBindingName: new("old")}},
		{Spec: corev1beta1.ShootSpec{CredentialsBindingName: new("new")}}, {},
	}
	for b, want := range map[[2]string]bool{
		{kindSecretBinding, "old"}: true, {kindSecretBinding, "new"}: false,
		{kindCredentialsBinding, "new"}: true, {kindCredentialsBinding, "old"}: false, {kindCredentialsBinding, ""}: false,
	} {
		if got := (binding{kind: b[0], name: b[1]}).usedBy(shoots); got != want {
			t.Errorf("%v is used: %v, want %v", b, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Config{MinimumLifetimeDays: -1, GracePeriodDays: -2, ExpirationTimeDays: -3}.Validate()
	want := "minimum lifetime: -1 days (want 0 or more)\ngrace period: -2 days (want 0 or more)\n" +
		"expiration time: -3 days (want the grace period of -2 or more)\nsync period: 0s (want more than 0s)"
	if err == nil || err.Error() != want {
		t.Errorf("Validate() = %v, want\n%s", err, want)
	}
}
