package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// waitingForSeed lets Shoots through that wait for a seed, when they appear and when their spec changes.
func waitingForSeed(name string) builder.Predicates {
	return builder.WithPredicates(predicate.And(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return responsible(o.(*corev1beta1.Shoot), name) }),
		predicate.GenerationChangedPredicate{},
	))
}

// decisiveChanges lets changes of a Seed through that a decision depends on; heartbeats are none.
func decisiveChanges() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, now := e.ObjectOld.(*corev1beta1.Seed), e.ObjectNew.(*corev1beta1.Seed)
			return old.Generation != now.Generation || !equality.Semantic.DeepEqual(decisive(old), decisive(now))
		},
		DeleteFunc: func(e event.DeleteEvent) bool { // It may have been the only Seed with a default domain.
			return len(e.Object.(*corev1beta1.Seed).Spec.DNS.Defaults) > 0
		},
	})
}

// placingChanges lets profiles through that are new or choose seeds differently; CloudProfiles have no generation.
func placingChanges() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, isProfile := e.ObjectOld.(*corev1beta1.CloudProfile)
			return isProfile && !equality.Semantic.DeepEqual(old.Spec.SeedSelector,
				e.ObjectNew.(*corev1beta1.CloudProfile).Spec.SeedSelector)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // A deleted profile makes no Shoot schedulable.
	})
}

// regionConfigs lets ConfigMaps with distances of regions through, gone ones, too: names of regions decide then.
func regionConfigs() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isRegionConfig(e.Object.(*corev1.ConfigMap)) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return isRegionConfig(e.ObjectOld.(*corev1.ConfigMap)) || isRegionConfig(e.ObjectNew.(*corev1.ConfigMap))
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return isRegionConfig(e.Object.(*corev1.ConfigMap)) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	})
}

// decisive is what filters read of a Seed besides its spec.
func decisive(s *corev1beta1.Seed) any {
	return []any{
		s.Labels, s.EmergencyStop(), s.Status.Allocatable, s.Status.LastOperation != nil,
		conditionTrue(s, corev1beta1.SeedGardenletReady), conditionTrue(s, corev1beta1.SeedBackupBucketsReady),
	}
}
