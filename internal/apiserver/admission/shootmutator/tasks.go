package shootmutator

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var (
	dnsTasks = []string{
		corev1beta1.ShootTaskDeployDNSRecordInternal, corev1beta1.ShootTaskDeployDNSRecordExternal,
		corev1beta1.ShootTaskDeployDNSRecordIngress,
	}
	allDeployTasks = append([]string{corev1beta1.ShootTaskDeployInfrastructure}, dnsTasks...)
)

// update adds the tasks that a change requires, and requests a retry if a failed Shoot has a pending change.
func update(shoot, old *corev1beta1.Shoot) {
	if old.HibernationEnabled() && !shoot.HibernationEnabled() {
		addTasks(shoot, allDeployTasks...)
	}
	if infrastructureChanged(shoot, old) || rotatesSSHKeypair(shoot) {
		addTasks(shoot, corev1beta1.ShootTaskDeployInfrastructure)
	}
	if !equality.Semantic.DeepEqual(shoot.Spec.DNS, old.Spec.DNS) {
		addTasks(shoot, dnsTasks...)
	}
	maintenance, last := shoot.Spec.Maintenance, old.Status.LastOperation
	if maintenance != nil && maintenance.ConfineSpecUpdateRollout != nil && *maintenance.ConfineSpecUpdateRollout &&
		last != nil && last.State == corev1beta1.LastOperationStateFailed &&
		!equality.Semantic.DeepEqual(shoot.Spec, old.Spec) {
		metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, corev1beta1.AnnotationNeedsRetryOperation, "true")
	}
}

func infrastructureChanged(shoot, old *corev1beta1.Shoot) bool {
	families := func(s *corev1beta1.Shoot) int {
		if s.Spec.Networking == nil {
			return 0
		}
		return len(s.Spec.Networking.IPFamilies)
	}
	ssh := func(s *corev1beta1.Shoot) bool {
		settings := s.Spec.Provider.WorkersSettings
		return settings != nil && settings.SSHAccess != nil && settings.SSHAccess.Enabled
	}
	return !equality.Semantic.DeepEqual(shoot.Spec.Provider.InfrastructureConfig,
		old.Spec.Provider.InfrastructureConfig) ||
		families(shoot) > families(old) || ssh(shoot) != ssh(old)
}

func rotatesSSHKeypair(shoot *corev1beta1.Shoot) bool {
	return slices.ContainsFunc(corev1beta1.Operations(shoot.Annotations, corev1beta1.AnnotationOperation),
		func(operation string) bool {
			switch operation {
			case corev1beta1.OperationRotateSSHKeypair, corev1beta1.OperationRotateCredentialsStart,
				corev1beta1.OperationRotateCredentialsStartWithoutWorkersRollout:
				return true
			}
			return false
		})
}

// addTasks adds tasks that are not listed yet.
func addTasks(shoot *corev1beta1.Shoot, tasks ...string) {
	var list []string
	if written := shoot.Annotations[corev1beta1.AnnotationShootTasks]; written != "" {
		list = strings.Split(written, ",")
	}
	for _, task := range tasks {
		if !slices.Contains(list, task) {
			list = append(list, task)
		}
	}
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, corev1beta1.AnnotationShootTasks, strings.Join(list, ","))
}
