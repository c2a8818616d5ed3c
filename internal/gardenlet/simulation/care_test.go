package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/sim"
)

// rules hold after each write.
func (r *careRun) rules() {
	r.Always("care writes what is true, in time, and nothing else", func() error {
		return errors.Join(r.judge(r.writing), r.violation)
	})
	r.Always("care writes nothing to seeds", func() error {
		a, b := r.seeds["a"].cluster.Writes(), r.seeds["b"].cluster.Writes()
		return is(a == 0 && b == 0, "%d and %d requests", a, b)
	})
}

// somebody makes a change at some time.
func (r *careRun) somebody(name string, cluster *sim.Cluster, act change) func() {
	return func() { r.Change(name, cluster, r.by(act)) }
}

// anything brings or removes a random cause.
func (r *careRun) anything() func() {
	c := allCauses[r.Random.IntN(len(allCauses))]
	return r.somebody("toggle: "+string(c), r.user, r.toggle(c))
}

// pods are those of a StatefulSet of the user's cluster that may fail, and be replaced by others of the same name.
type pods struct {
	*careRun
	running types.UID // The pod that must stay; "" if there is none.
}

func (p *pods) pod() *corev1.Pod { return named[corev1.Pod](metav1.NamespaceSystem, "set-0") }

func (p *pods) replace(phase corev1.PodPhase, reason string) change {
	return func(ctx context.Context, c client.Client) error {
		p.running = ""
		if err := client.IgnoreNotFound(c.Delete(ctx, p.pod())); err != nil {
			return err
		}
		o := p.pod()
		o.Status.Phase, o.Status.Reason = phase, reason
		err := c.Create(ctx, o)
		if reason != "Evicted" {
			p.running = o.UID
		}
		return err
	}
}

// replaceFailed replaces a failed pod, at times.
func (p *pods) replaceFailed() error {
	o := p.pod()
	if !p.user.Exists(o) || o.Status.Reason != "Evicted" || p.dice.IntN(2) == 0 {
		return nil
	}
	return p.by(p.replace(corev1.PodRunning, ""))(context.Background(), p.user)
}

func (p *pods) rule() error {
	o := p.pod()
	return is(p.running == "" || p.user.Exists(o) && o.UID == p.running, "pod %s is gone", p.running)
}

// foreign writes a condition and a constraint that are not care's.
func (r *careRun) foreign(status corev1beta1.ConditionStatus) change {
	return r.editShootStatus(func(s *corev1beta1.ShootStatus) {
		now := r.Clock().Now()
		s.Conditions = corev1beta1.SetCondition(s.Conditions, corev1beta1.Condition{
			Type: "OfSomebodyElse", Status: status,
		}, now)
		s.Constraints = corev1beta1.SetCondition(s.Constraints, corev1beta1.Condition{
			Type: corev1beta1.ShootReadyForMigration, Status: status,
		}, now)
	})
}

// forget makes all conditions Unknown, as the garden does after an outage of the gardenlet.
func (r *careRun) forget() change {
	return r.editShootStatus(func(s *corev1beta1.ShootStatus) {
		for _, list := range [][]corev1beta1.Condition{s.Conditions, s.Constraints} {
			for i := range list {
				if c := &list[i]; c.Status != isUnknown {
					c.Status, c.Reason, c.LastTransitionTime = isUnknown, "SeedIsLost", metav1.NewTime(r.Clock().Now())
				}
			}
		}
	})
}

func (r *careRun) move(seed string) change {
	return r.editShoot(func(s *corev1beta1.Shoot) { s.Spec.SeedName = &seed })
}

// life has the changes of a run: groups in an order that the seed determines.
func (r *careRun) life(p *pods) {
	region := func(name string) func() {
		return r.somebody("change the spec", r.garden, r.editShoot(func(s *corev1beta1.Shoot) { s.Spec.Region = name }))
	}
	evict := r.somebody("a pod fails", r.user, p.replace(corev1.PodFailed, "Evicted"))
	replace := r.somebody("another pod replaces it", r.user, p.replace(corev1.PodRunning, ""))
	groups := [][]func(){
		{r.somebody("hibernate", r.garden, r.hibernate(true)), r.anything(),
			r.somebody("wake up", r.garden, r.hibernate(false))},
		{r.somebody("move", r.garden, r.move("b"))},
		{region("x")}, {region("y")},
		{evict, replace}, {evict, replace},
		{r.somebody("a pod fails by itself", r.user, p.replace(corev1.PodFailed, "Error"))},
		{r.somebody("others write conditions", r.garden, r.foreign(isTrue)),
			r.somebody("others write conditions again", r.garden, r.foreign(isFalse))},
		{r.somebody("the garden forgets", r.garden, r.forget())},
		{r.somebody("backups are behind", r.user, r.toggle(backupsBehind)),
			r.somebody("and their process does not answer", r.user, r.toggle(noBackupStatus))},
		{r.somebody("make a webhook", r.user, create(problematicWebhook("w")))},
	}
	for range 12 {
		groups = append(groups, []func(){r.anything()})
	}
	r.Random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for _, add := range slices.Concat(groups...) {
		add()
	}
}

// Conditions and constraints say what is true in time, whoever else writes to the status, and wherever the control
// plane is.
func TestSimulateCare(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		r := newCareRun(w, time.Minute, "a", "b")
		p := &pods{careRun: r}
		r.rules()
		w.Always("pods that run stay", p.rule)
		r.life(p)
		r.afterPodList = p.replaceFailed
		w.Overlap()
		r.meddling = true
		w.Faults(200)
		r.meddling = false
		w.Change("wake up at last", r.garden, r.by(r.hibernate(false)))
		w.Faults(0)
		w.Eventually(150, "the status says what is wrong", r.settled)
		r.rests()

		w.Change("everything works", r.garden, r.by(r.toggle(r.present()...)))
		w.Faults(20)
		w.Eventually(100, "the status says that everything works", r.settled)
		c := allCauses[r.Random.IntN(len(allCauses))]
		w.Change("toggle: "+string(c), r.user, r.by(r.toggle(c)))
		w.Faults(0)
		w.Idle(patience + 3*r.period)
		w.Eventually(3, "the status says what is wrong in time", r.settled)
		w.Change("it ends", r.user, r.by(r.toggle(c)))
		w.Faults(0)
		w.Idle(2*r.period + 10*time.Second)
		w.Eventually(3, "the status says in time that it has ended", r.settled)
		r.rests()

		w.Change("delete the Shoot", r.garden, r.by(remove(r.shoot())))
		w.Faults(40)
		w.Eventually(60, "the Shoot is gone", func() error { return r.garden.Gone(r.shoot()) })
	})
}

const (
	// stubbornWebhook is one whose owner reverts each repair.
	stubbornWebhook = "stubborn"
	// refusedWebhook is one whose repair is refused by the cluster.
	refusedWebhook = "a-refused"
)

func webhook(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return named[admissionregistrationv1.ValidatingWebhookConfiguration]("", name)
}

// problematicWebhook blocks pods of the system for half a minute if it does not answer.
func problematicWebhook(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	c := webhook(name)
	c.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "pods.example.com", FailurePolicy: ptr.To(admissionregistrationv1.Fail), TimeoutSeconds: ptr.To[int32](30),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://example.com/0")},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
			},
		}},
	}}
	return c
}

// owner has the webhook that is repaired again and again.
type owner struct {
	*careRun
	stubborn   bool
	release    int
	concurrent int // Updates that happen just before repairs.
}

// revert makes the webhook as it was.
func (o *owner) revert(context.Context, client.Client) error {
	c := webhook(stubbornWebhook)
	if !o.stubborn || !o.user.Exists(c) || *c.Webhooks[0].TimeoutSeconds == 30 {
		return nil
	}
	return o.user.Edit(c, func() {
		c.Webhooks[0].TimeoutSeconds, c.Webhooks[0].NamespaceSelector = ptr.To[int32](30), nil
	})
}

// update makes the webhook call another address.
func (o *owner) update(context.Context, client.Client) error {
	o.release++
	c, url := webhook(stubbornWebhook), fmt.Sprintf("https://example.com/%d", o.release)
	return o.user.Edit(c, func() { c.Webhooks[0].ClientConfig.URL = &url })
}

// updateFirst updates the webhook before a repair, at times.
func (o *owner) updateFirst() error {
	if o.concurrent == 0 || o.dice.IntN(2) == 0 {
		return nil
	}
	o.concurrent--
	return o.by(o.update)(context.Background(), o.user)
}

func (o *owner) rule() error {
	c := webhook(stubbornWebhook)
	want := fmt.Sprintf("https://example.com/%d", o.release)
	return is(o.user.Exists(c) && len(c.Webhooks) == 1 && *c.Webhooks[0].ClientConfig.URL == want &&
		*c.Webhooks[0].FailurePolicy == admissionregistrationv1.Fail && len(c.Webhooks[0].Rules) == 1,
		"%+v, want %s", c.Webhooks, want)
}

// harmless reports whether the webhook is repaired.
func (o *owner) harmless() error {
	c := webhook(stubbornWebhook)
	return is(o.user.Exists(c) && *c.Webhooks[0].TimeoutSeconds == 15 && c.Webhooks[0].NamespaceSelector != nil &&
		c.Annotations[corev1beta1.AnnotationWarning] != "", "%+v", c)
}

// Webhooks that could break the cluster are repaired. One whose owner reverts that is repaired less and less often; one
// that cannot be repaired is no obstacle for others, and those that are excluded stay as they are.
func TestSimulateWebhookRepairs(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		r := newCareRun(w, 10*time.Minute, "a")
		o := &owner{careRun: r, stubborn: true, concurrent: 2}
		r.beforeRepair = o.updateFirst
		excluded, own := problematicWebhook("b-excluded"), problematicWebhook("c-own")
		excluded.Labels = map[string]string{corev1beta1.LabelExcludeWebhookFromRemediation: "true"}
		own.Labels = map[string]string{"app": "gardener-resource-manager"}
		r.user.Add(problematicWebhook(stubbornWebhook), problematicWebhook(refusedWebhook), excluded, own)
		r.rules()
		w.Always("what its owner has written stays", o.rule)
		kept := []*admissionregistrationv1.ValidatingWebhookConfiguration{own, excluded}
		w.Always("excluded webhooks stay as they are", func() error {
			for _, before := range kept {
				if c := webhook(before.Name); !r.user.Exists(c) || c.ResourceVersion != before.ResourceVersion {
					return fmt.Errorf("%s has changed: %+v", c.Name, c)
				}
			}
			return nil
		})
		w.Actor("the owner reverts repairs", r.user, func(ctx context.Context, c client.Client) error {
			return r.by(o.revert)(ctx, c)
		})
		for range 3 {
			w.Change("the owner updates the webhook", r.user, r.by(o.update))
			r.anything()()
		}
		w.Overlap()
		w.Faults(150)
		w.Change("everything works", r.garden, r.by(r.toggle(r.present()...)))
		w.Faults(0)
		w.Idle(4 * time.Hour)
		w.Eventually(200, "the status says that a repair is reverted", func() error {
			c := conditionOf(r.lastShoot(), corev1beta1.ShootHibernationPossible)
			return errors.Join(r.settled(), is(c != nil && c.Reason == "ProblematicWebhooks", "%+v", c))
		})
		w.Change("the owner gives in", r.user, func(context.Context, client.Client) error {
			o.stubborn = false
			return nil
		})
		w.Faults(0)
		w.Idle(time.Hour + 2*r.period)
		w.Eventually(200, "the webhook is repaired", o.harmless)
		w.Change("delete the others", r.user, func(ctx context.Context, c client.Client) error {
			kept = kept[:1]
			return errors.Join(c.Delete(ctx, webhook(refusedWebhook)), c.Delete(ctx, excluded))
		})
		w.Faults(0)
		w.Eventually(200, "the status says that webhooks were repaired", func() error {
			c := conditionOf(r.lastShoot(), corev1beta1.ShootHibernationPossible)
			return errors.Join(r.settled(), is(c != nil && c.Reason == "RemediatedWebhooks", "%+v", c))
		})
		r.rests()
	})
}

// lastShoot is the Shoot as it is now; empty if it is gone.
func (r *careRun) lastShoot() *corev1beta1.Shoot {
	s := r.shoot()
	r.garden.Exists(s)
	return s
}
