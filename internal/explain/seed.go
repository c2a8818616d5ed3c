package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// OfSeed explains the state of a Seed at a time.
func OfSeed(f *SeedFacts, now time.Time) *Explanation {
	e := &Explanation{
		Kind: "Seed", Name: f.Seed.Name, State: state(f.Seed.Status.LastOperation, now), Notes: seedNotes(f.Seed, now),
		Unread: f.Unread, Problems: []Problem{},
	}
	causes := causesOfSeed(f, now)
	if stop := emergencyStop(f.Seed); stop != nil {
		e.Problems = append(e.Problems, *stop)
	}
	e.Problems = append(e.Problems, seedConditions(f.Seed, causes)...)
	if op := seedOperation(f.Seed, causes); op != nil {
		e.Problems = append(e.Problems, *op)
	}
	e.Problems = append(e.Problems, causes.takeAll()...) // What no condition shows yet.
	return e
}

func seedNotes(s *corev1beta1.Seed, now time.Time) (out []string) {
	if s.DeletionTimestamp != nil {
		out = append(out, fmt.Sprintf("The Seed has been deleted %s ago.", age(s.DeletionTimestamp.Time, now)))
	}
	if settings := s.Spec.Settings; settings != nil && settings.Scheduling != nil && !settings.Scheduling.Visible {
		out = append(out, "The scheduler places no Shoots on the Seed (spec.settings.scheduling.visible).")
	}
	return out
}

// emergencyStop is why the Seed's Shoots are not reconciled; nil if they are.
func emergencyStop(s *corev1beta1.Seed) *Problem {
	if !s.EmergencyStop() {
		return nil
	}
	p := &Problem{
		Object: Object{Place: InGarden, Kind: "Seed", Name: s.Name}, Message: "An operator has stopped all operations on its Shoots.",
		Action: "When the emergency is over, run: " + endEmergencyStop(s),
	}
	c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedEmergencyStopShootReconciliations)
	if c != nil {
		p.Since = since(c.LastTransitionTime)
	}
	return p
}

// endEmergencyStop is the command that ends it.
func endEmergencyStop(s *corev1beta1.Seed) string {
	return fmt.Sprintf("kubectl annotate seed %s %s-", s.Name, corev1beta1.AnnotationEmergencyStopShootReconciliations)
}

// seedActions are what operators do about conditions of a Seed, unless the causes say more.
var seedActions = map[corev1beta1.ConditionType]string{
	corev1beta1.SeedGardenletReady: "Check that the gardenlet runs and reaches the garden. Until then nothing is changed, and " +
		"conditions are unknown. If the Seed is lost: docs/runbooks/a-seed-is-gone.md.",
	corev1beta1.SeedBackupBucketsReady:      "Mend the object store or its credentials (Seed, spec.backup).",
	corev1beta1.SeedExtensionsReady:         "Look at the ControllerInstallations of the Seed.",
	corev1beta1.SeedSystemComponentsHealthy: "Look at the pods and ManagedResources in namespace garden of the Seed.",
}

// areasOfSeed are the areas whose problems make a condition of a Seed False.
var areasOfSeed = map[corev1beta1.ConditionType]area{
	corev1beta1.SeedGardenletReady:          gardenlet,
	corev1beta1.SeedBackupBucketsReady:      buckets,
	corev1beta1.SeedExtensionsReady:         extensions,
	corev1beta1.SeedSystemComponentsHealthy: seedComponents,
}

func seedConditions(s *corev1beta1.Seed, causes *causes) (out []Problem) {
	for _, c := range s.Status.Conditions {
		if c.Status == corev1beta1.ConditionTrue {
			continue
		}
		p := conditionProblem(c)
		if a, has := areasOfSeed[c.Type]; has {
			p.Causes = causes.take(a)
		}
		works := c.Status == corev1beta1.ConditionProgressing ||
			c.Status == corev1beta1.ConditionUnknown && c.Type != corev1beta1.SeedGardenletReady
		if !works && !slices.ContainsFunc(p.Causes, Problem.hasAction) {
			p.Action = seedActions[c.Type]
		}
		out = append(out, p)
	}
	return out
}

// hasAction reports whether the problem or a cause of it says what to do.
func (p Problem) hasAction() bool {
	return p.Action != "" || slices.ContainsFunc(p.Causes, Problem.hasAction)
}

// seedOperation is why the Seed's last operation has not succeeded; nil if it has, or a condition says the same.
func seedOperation(s *corev1beta1.Seed, causes *causes) *Problem {
	last := s.Status.LastOperation
	if last == nil || last.State == corev1beta1.LastOperationStateSucceeded {
		return nil
	}
	for _, c := range s.Status.Conditions {
		if c.Status != corev1beta1.ConditionTrue && c.Message == last.Description {
			return nil
		}
	}
	p := &Problem{
		Object: Object{InGarden, "Operation", "", string(last.Type)}, Since: since(last.LastUpdateTime),
		Message: sentence(last.Description),
	}
	if last.Type == corev1beta1.LastOperationTypeDelete { // It waits for these.
		p.Causes = append(causes.take(extensions), causes.take(buckets)...)
	}
	return p
}

func causesOfSeed(f *SeedFacts, now time.Time) *causes {
	c := &causes{of: map[area][]Problem{}}
	if f.ManagedSeed != nil {
		c.add(gardenlet, unmet("ManagedSeed", f.ManagedSeed, f.ManagedSeed.Status.Conditions)...)
	}
	if f.Gardenlet != nil {
		c.add(gardenlet, unmet("Gardenlet", f.Gardenlet, f.Gardenlet.Status.Conditions)...)
	}
	for i := range f.Buckets {
		if p := bucket(&f.Buckets[i]); p != nil {
			c.add(buckets, *p)
		}
	}
	cluster := f.Cluster
	if cluster == nil {
		cluster = &SeedCluster{}
	}
	left := maps.Clone(cluster.Namespaces)
	resources := map[string]*Problem{}
	for i := range cluster.Resources {
		resources[cluster.Resources[i].Name] = unready(&cluster.Resources[i])
	}
	for i := range f.Installations {
		extension := &f.Installations[i]
		namespace := corev1beta1.ExtensionNamespacePrefix + extension.Name
		w := left[namespace]
		delete(left, namespace)
		c.add(extensions, installation(extension, resources[extension.Name], workloads(InSeed, &w, now))...)
		delete(resources, extension.Name)
	}
	for i := range cluster.Nodes {
		if p := node(InSeed, &cluster.Nodes[i]); p != nil {
			c.add(seedComponents, *p)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(left)) {
		w := left[namespace]
		if p := scaledDown(w.List); p != nil {
			c.add(gardenlet, *p)
		}
		for _, p := range workloads(InSeed, &w, now) {
			if p.Object.Name == gardenletName {
				c.add(gardenlet, p)
			} else {
				c.add(seedComponents, p)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if p := resources[name]; p != nil {
			c.add(seedComponents, *p)
		}
	}
	return c
}

// gardenletName is the name of the Deployment of a gardenlet.
const gardenletName = "gardenlet"

// scaledDown is the problem of a gardenlet that is to have no pods; nil if there is none.
func scaledDown(workloads []Workload) *Problem {
	for _, w := range workloads {
		if w.Kind == "Deployment" && w.Name == gardenletName && w.Wanted == 0 {
			return &Problem{
				Object: Object{InSeed, w.Kind, w.Namespace, w.Name}, Message: "It has no pods, because spec.replicas is 0.",
				Action: fmt.Sprintf("Run in the Seed: kubectl scale -n %s deployment %s --replicas=1", w.Namespace, w.Name),
			}
		}
	}
	return nil
}

// unmet are the conditions of an object in the garden that are not True.
func unmet(kind string, o metav1.Object, conditions []corev1beta1.Condition) (out []Problem) {
	for _, c := range conditions {
		if c.Status != corev1beta1.ConditionTrue {
			out = append(out, Problem{
				Object: Object{InGarden, kind, o.GetNamespace(), o.GetName()}, Since: since(c.LastTransitionTime),
				Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, sentence(c.Message)),
			})
		}
	}
	return out
}

// bucket is why a BackupBucket is not available; nil if it is.
func bucket(b *corev1beta1.BackupBucket) *Problem {
	p := &Problem{Object: Object{InGarden, "BackupBucket", "", b.Name}, Since: since(b.CreationTimestamp)}
	last, failure := b.Status.LastOperation, b.Status.LastError
	if last != nil {
		p.Since = since(last.LastUpdateTime)
	}
	switch {
	case failure != nil:
		p.Message = sentence(failure.Description)
		if slices.ContainsFunc(failure.Codes, func(c corev1beta1.ErrorCode) bool {
			return c == corev1beta1.ErrorInfraUnauthenticated || c == corev1beta1.ErrorInfraUnauthorized
		}) {
			p.Action = "Correct the credentials of the object store (Seed, spec.backup.credentialsRef), or give them more rights."
		}
	case last == nil:
		p.Message = "Nothing has been done for it yet."
	case last.State != corev1beta1.LastOperationStateSucceeded:
		p.Message = fmt.Sprintf("%s is %s: %s", last.Type, last.State, sentence(last.Description))
	default:
		return nil
	}
	return p
}

// installationActions are what operators do about reasons of conditions of a ControllerInstallation. Other reasons pass
// by themselves, or their causes say what to do.
var installationActions = map[string]string{
	"ChartInformationInvalid":   "Create or correct the ControllerDeployment to which the ControllerRegistration refers.",
	"ChartCannotBeRendered":     "Correct the chart of the extension, or its values in the ControllerDeployment.",
	"OCIChartCannotBePulled":    "Correct helm.ociRepository of the ControllerDeployment, or the registry.",
	"RenderingHelmValuesFailed": "Correct the resources of the ControllerDeployment, or create what they refer to.",
	"InstallationFailed":        "Correct the object in the extension's chart that the messages name, or remove what is in its way.",
}

// installation is why an extension is not ready on the Seed. Below it are its ManagedResource, if its conditions do not
// say the same, and those of its workloads that have problems. Workloads that the conditions do not report yet are
// problems of their own.
func installation(i *corev1beta1.ControllerInstallation, resource *Problem, workloads []Problem) []Problem {
	p := Problem{Object: Object{InGarden, "ControllerInstallation", "", i.Name}, Causes: workloads}
	extension := "Extension " + i.Spec.RegistrationRef.Name
	if i.DeletionTimestamp != nil {
		p.Since = since(*i.DeletionTimestamp)
		p.Message = extension + " is being removed."
		required := corev1beta1.FindCondition(i.Status.Conditions, corev1beta1.ControllerInstallationRequired)
		if required != nil && required.Status == corev1beta1.ConditionTrue {
			p.Message += " " + sentence(required.Message)
		} else if resource != nil {
			p.Causes = append([]Problem{*resource}, p.Causes...)
		}
		return []Problem{p}
	}
	c := unmetOf(i)
	if c == nil {
		return workloads
	}
	p.Since = since(c.LastTransitionTime)
	p.Message = fmt.Sprintf("%s: %s is %s: %s", extension, c.Type, c.Status, sentence(c.Message))
	p.Action = installationActions[c.Reason]
	if resource != nil && !strings.Contains(resource.Message, strings.TrimSuffix(c.Message, ".")) {
		p.Causes = append([]Problem{*resource}, p.Causes...)
	}
	return []Problem{p}
}

// unmetOf is the first condition, in the order in which they come about, that keeps an extension from being ready; nil
// if there is none.
func unmetOf(i *corev1beta1.ControllerInstallation) *corev1beta1.Condition {
	for _, row := range []struct {
		kind corev1beta1.ConditionType
		want corev1beta1.ConditionStatus
	}{
		{corev1beta1.ControllerInstallationValid, corev1beta1.ConditionTrue},
		{corev1beta1.ControllerInstallationInstalled, corev1beta1.ConditionTrue},
		{corev1beta1.ControllerInstallationHealthy, corev1beta1.ConditionTrue},
		{corev1beta1.ControllerInstallationProgressing, corev1beta1.ConditionFalse},
	} {
		c := corev1beta1.FindCondition(i.Status.Conditions, row.kind)
		if c == nil {
			return &corev1beta1.Condition{
				Type: row.kind, Status: corev1beta1.ConditionUnknown, LastTransitionTime: i.CreationTimestamp,
				Message: "The gardenlet has not reported yet.",
			}
		}
		if c.Status != row.want {
			return c
		}
	}
	return nil
}
