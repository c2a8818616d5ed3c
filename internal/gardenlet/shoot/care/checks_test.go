package care

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/secretsmanager"
)

func resource(
	name string, applied, healthy, progressing corev1beta1.ConditionStatus,
) resourcesv1alpha1.ManagedResource {
	mr := resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for kind, status := range map[string]corev1beta1.ConditionStatus{
		resourcesv1alpha1.ResourcesApplied:     applied,
		resourcesv1alpha1.ResourcesHealthy:     healthy,
		resourcesv1alpha1.ResourcesProgressing: progressing,
	} {
		mr.Status.Conditions = append(mr.Status.Conditions, corev1beta1.Condition{
			Type: corev1beta1.ConditionType(kind), Status: status, Reason: kind + "Reason",
		})
	}
	return mr
}

// healthyShoot has one pool with one ready node, and no problems.
func healthyShoot() *Observed {
	o := &Observed{
		Now: now,
		Shoot: &corev1beta1.Shoot{
			Spec: corev1beta1.ShootSpec{
				Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
				Provider:   corev1beta1.Provider{Workers: []corev1beta1.Worker{{Name: "pool", Minimum: 1, Maximum: 2}}},
			},
			Status: corev1beta1.ShootStatus{LastOperation: &corev1beta1.LastOperation{
				Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateSucceeded,
				LastUpdateTime: metav1.Time{Time: now.Add(-time.Hour)},
			}},
		},
		Etcd: &appsv1.StatefulSet{
			Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(1))}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 1},
		},
		Resources:          []resourcesv1alpha1.ManagedResource{resource("coredns", "True", "True", "False")},
		HealthStatus:       200,
		ConfigChecksums:    map[string]string{"key": "sum"},
		MachineDeployments: []machinev1alpha1.MachineDeployment{{Spec: machinev1alpha1.MachineDeploymentSpec{Replicas: 1}}},
		Machines: []machinev1alpha1.Machine{{Status: machinev1alpha1.MachineStatus{
			CurrentStatus: machinev1alpha1.CurrentStatus{Phase: machinev1alpha1.MachineRunning},
		}}},
		TunnelPod:   true,
		Nodes:       []Node{nodeOf(healthyNode())},
		NodeLeases:  []Lease{lease("n1", now)},
		AgentLeases: []Lease{lease("gardener-node-agent-n1", now)},
	}
	for _, name := range requiredDeployments(o) {
		o.Deployments = append(o.Deployments, appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1))},
			Status: appsv1.DeploymentStatus{AvailableReplicas: 1},
		})
	}
	return o
}

func healthyNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1",
			Labels: map[string]string{
				corev1beta1.LabelWorkerPool: "pool", corev1beta1.LabelWorkerNodeAgentSecretName: "key",
			},
			Annotations: map[string]string{annotationChecksum: "sum"},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
		},
	}
}

func lease(name string, renewed time.Time) Lease {
	return leaseOf(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{
		RenewTime: &metav1.MicroTime{Time: renewed}, LeaseDurationSeconds: ptr.To(int32(40)),
	}})
}

// TestEveryDeploymentIsRequired: a control plane is unhealthy without any of its Deployments.
func TestEveryDeploymentIsRequired(t *testing.T) {
	for _, d := range steps.Deployments {
		o := healthyShoot()
		o.Deployments = slices.DeleteFunc(o.Deployments, func(have appsv1.Deployment) bool { return have.Name == d.Name })
		want := bad("DeploymentMissing", "Missing required deployment: "+d.Name+".")
		if diff := cmp.Diff(want, check(o, Settings{}, corev1beta1.ShootControlPlaneHealthy)); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", d.Name, diff)
		}
		o.Shoot.Spec.Provider.Workers = nil
		healthy := check(o, Settings{}, corev1beta1.ShootControlPlaneHealthy).Status == corev1beta1.ConditionTrue
		if healthy != d.Workers {
			t.Errorf("a Shoot without workers and without %s is healthy: %t, want %t", d.Name, healthy, d.Workers)
		}
	}
}

func TestConditions(t *testing.T) {
	type want struct {
		kind   corev1beta1.ConditionType
		status corev1beta1.ConditionStatus
		reason string
	}
	node := func(change func(*corev1.Node)) func(*Observed) {
		return func(o *Observed) {
			n := healthyNode()
			change(n)
			o.Nodes[0] = nodeOf(n)
		}
	}
	updated := func(strategy corev1beta1.MachineUpdateStrategy, reason string) func(*Observed) { // In place.
		return func(o *Observed) {
			o.Shoot.Spec.Provider.Workers[0].UpdateStrategy = &strategy
			node(func(n *corev1.Node) {
				n.Labels[corev1beta1.LabelNodeCandidateForUpdate], n.Labels[corev1beta1.LabelNodeSelectedForUpdate] = "true", "true"
				n.Spec.Unschedulable = true
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
					Type: machinev1alpha1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason,
				})
			})(o)
			o.Machines[0].Status.CurrentStatus.Phase = machinev1alpha1.MachineInPlaceUpdating
			o.MachineDeployments[0].Status.Conditions = []machinev1alpha1.MachineDeploymentCondition{{
				Type: machinev1alpha1.MachineDeploymentProgressing, Status: machinev1alpha1.ConditionTrue,
				Reason: "MachineSetUpdated",
			}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*Observed)
		want   want
	}{
		"everything is fine": {func(*Observed) {}, want{corev1beta1.ShootEveryNodeReady, "True", "EveryNodeReady"}},
		"the API server does not answer": {
			func(o *Observed) { o.HealthError, o.HealthStatus = errors.New("timeout"), 0 },
			want{corev1beta1.ShootAPIServerAvailable, "False", "HealthzRequestFailed"},
		},
		"the API server is unwell": {
			func(o *Observed) { o.HealthStatus = 500 },
			want{corev1beta1.ShootAPIServerAvailable, "False", "HealthzRequestError"},
		},
		"the API server is missing": {
			func(o *Observed) { o.Deployments[0].Spec.Replicas = ptr.To(int32(0)) },
			want{corev1beta1.ShootAPIServerAvailable, "False", "APIServerDown"},
		},
		"nodes are unknown without it": {
			func(o *Observed) { o.HealthStatus = 500 },
			want{corev1beta1.ShootEveryNodeReady, "Unknown", reasonNotChecked},
		},
		"a deployment is missing": {
			func(o *Observed) { o.Deployments = o.Deployments[1:] },
			want{corev1beta1.ShootControlPlaneHealthy, "False", "DeploymentMissing"},
		},
		"a deployment is down": {
			func(o *Observed) { o.Deployments[1].Status.AvailableReplicas = 0 },
			want{corev1beta1.ShootControlPlaneHealthy, "False", "DeploymentUnhealthy"},
		},
		"etcd is missing": {
			func(o *Observed) { o.Etcd = nil },
			want{corev1beta1.ShootControlPlaneHealthy, "False", "EtcdMissing"},
		},
		"etcd is down": {
			func(o *Observed) { o.Etcd.Status.ReadyReplicas = 0 },
			want{corev1beta1.ShootControlPlaneHealthy, "False", "EtcdUnhealthy"},
		},
		"etcd is down for a reason, which precedes its consequences": {func(o *Observed) {
			o.Etcd.Status.ReadyReplicas, o.Deployments[0].Status.AvailableReplicas = 0, 0
			o.Backups = &Backups{Status: etcdbackup.Status{Etcd: etcdbackup.Etcd{
				State: etcdbackup.EtcdFailing, Message: "no space left",
			}}}
		}, want{corev1beta1.ShootControlPlaneHealthy, "False", "EtcdUnhealthy"}},
		"an extension complains": {func(o *Observed) {
			o.Reports = []Report{{Kind: "ControlPlane", Name: "a", Condition: corev1beta1.Condition{
				Type: corev1beta1.ShootControlPlaneHealthy, Status: "False", Message: "ccm is down",
			}}}
		}, want{corev1beta1.ShootControlPlaneHealthy, "False", "ControlPlaneUnhealthyReport"}},
		"an extension has stopped sending heartbeats": {func(o *Observed) {
			o.Reports = []Report{{Kind: "Worker", Heartbeat: now.Add(-6 * time.Minute), Condition: corev1beta1.Condition{
				Type: corev1beta1.ShootEveryNodeReady, Status: "True",
			}}}
		}, want{corev1beta1.ShootEveryNodeReady, "Unknown", "WorkerOutdatedHealthCheckReport"}},
		"an extension reports progress": {func(o *Observed) {
			o.Reports = []Report{{Kind: "Worker", Condition: corev1beta1.Condition{
				Type: corev1beta1.ShootEveryNodeReady, Status: "Progressing", Reason: "Rolling",
			}}}
		}, want{corev1beta1.ShootEveryNodeReady, "Progressing", "Rolling"}},
		"a node is not ready": {
			node(func(n *corev1.Node) { n.Status.Conditions[0].Status = "False" }),
			want{corev1beta1.ShootEveryNodeReady, "False", "NodeUnhealthy"},
		},
		"a node has a full disk": {
			node(func(n *corev1.Node) { n.Status.Conditions[1].Status = "True" }),
			want{corev1beta1.ShootEveryNodeReady, "False", "NodeUnhealthy"},
		},
		"a kubelet is a patch behind": {
			node(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.1" }),
			want{corev1beta1.ShootEveryNodeReady, "False", "KubeletVersionMismatch"},
		},
		"a kubelet is a minor behind": {
			node(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.35.4" }),
			want{corev1beta1.ShootEveryNodeReady, "True", "EveryNodeReady"},
		},
		"a node is missing": {
			func(o *Observed) { o.Nodes = nil },
			want{corev1beta1.ShootEveryNodeReady, "False", "MissingNodes"},
		},
		"a change is not rolled out yet": {func(o *Observed) {
			o.RolledOut = o.Shoot.DeepCopy()
			o.Shoot.Spec.Kubernetes.Version = "1.36.4"
			o.Shoot.Spec.Provider.Workers[0].Minimum = 2
		}, want{corev1beta1.ShootEveryNodeReady, "True", "EveryNodeReady"}},
		"a configuration is pending": {
			node(func(n *corev1.Node) { n.Annotations[annotationChecksum] = "old" }),
			want{corev1beta1.ShootEveryNodeReady, "False", "OperatingSystemConfigOutdated"},
		},
		"a node about to be replaced needs no configuration": {node(func(n *corev1.Node) {
			n.Annotations[annotationChecksum] = "old"
			n.Spec.Taints = []corev1.Taint{{Key: taintPreferNoSchedule}}
		}), want{corev1beta1.ShootEveryNodeReady, "True", "EveryNodeReady"}},
		"a machine is on its way": {func(o *Observed) {
			o.MachineDeployments[0].Spec.Replicas = 2
			o.Machines = append(o.Machines, machinev1alpha1.Machine{})
		}, want{corev1beta1.ShootEveryNodeReady, "False", "NodesScalingUp"}},
		"a node is being drained": {func(o *Observed) {
			extra := o.Nodes[0]
			extra.Name, extra.Unschedulable = "n2", true
			o.Nodes = append(o.Nodes, extra)
			o.Machines = append(o.Machines, machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
				DeletionTimestamp: &metav1.Time{Time: now}, Labels: map[string]string{"node": "n2"},
			}})
		}, want{corev1beta1.ShootEveryNodeReady, "False", "NodesScalingDown"}},
		"a node is updated by hand": {
			updated(corev1beta1.ManualInPlaceUpdate, machinev1alpha1.ReadyForUpdate),
			want{corev1beta1.ShootEveryNodeReady, "True", "EveryNodeReady"},
		},
		"a node has been updated by hand for a long time": {func(o *Observed) {
			updated(corev1beta1.ManualInPlaceUpdate, machinev1alpha1.SelectedForUpdate)(o)
			o.MachineDeployments[0].Status.Conditions[0].Status = machinev1alpha1.ConditionFalse
		}, want{corev1beta1.ShootEveryNodeReady, "True", "EveryNodeReady"}},
		"a machine is being created while a node is updated by hand": {func(o *Observed) {
			updated(corev1beta1.ManualInPlaceUpdate, machinev1alpha1.ReadyForUpdate)(o)
			o.MachineDeployments[0].Status.Conditions = nil
			o.MachineDeployments[0].Spec.Replicas = 2
			o.Machines = append(o.Machines, machinev1alpha1.Machine{})
		}, want{corev1beta1.ShootEveryNodeReady, "False", "NodesScalingUp"}},
		"a node is updated by hand while another is drained": {func(o *Observed) {
			updated(corev1beta1.ManualInPlaceUpdate, machinev1alpha1.ReadyForUpdate)(o)
			o.MachineDeployments[0].Status.Conditions = nil
			o.Nodes = append(o.Nodes, Node{Name: "n2", Pool: "pool", Unschedulable: true, Ready: true})
			o.Machines = append(o.Machines, machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
				DeletionTimestamp: &metav1.Time{Time: now}, Labels: map[string]string{"node": "n2"},
			}})
		}, want{corev1beta1.ShootEveryNodeReady, "False", "NodesScalingDown"}},
		"an update by hand has failed": {
			updated(corev1beta1.ManualInPlaceUpdate, machinev1alpha1.UpdateFailed),
			want{corev1beta1.ShootEveryNodeReady, "False", "NodeUnhealthy"},
		},
		"an update that nobody has requested rolls out": {
			updated(corev1beta1.AutoInPlaceUpdate, machinev1alpha1.ReadyForUpdate),
			want{corev1beta1.ShootEveryNodeReady, "False", "NodesRollOutScalingUp"},
		},
		"a user has cordoned a candidate for an update": {node(func(n *corev1.Node) {
			n.Labels[corev1beta1.LabelNodeCandidateForUpdate], n.Spec.Unschedulable = "true", true
		}), want{corev1beta1.ShootEveryNodeReady, "False", "NodesScalingDown"}},
		"a node agent has stopped": {func(o *Observed) {
			o.AgentLeases = []Lease{lease("gardener-node-agent-n1", now.Add(-time.Minute))}
		}, want{corev1beta1.ShootEveryNodeReady, "False", "NodeAgentUnhealthy"}},
		"node leases have expired": {func(o *Observed) {
			o.NodeLeases = []Lease{lease("n1", now.Add(-time.Minute)), lease("n2", now)}
		}, want{corev1beta1.ShootEveryNodeReady, "False", "TooManyExpiredNodeLeases"}},
		"a system component is unhealthy": {func(o *Observed) {
			o.Resources = []resourcesv1alpha1.ManagedResource{resource("coredns", "True", "False", "False")}
		}, want{corev1beta1.ShootSystemComponentsHealthy, "False", "ResourcesHealthyReason"}},
		"a system component is not applied and unhealthy": { // The first of them decides, every time.
			func(o *Observed) {
				o.Resources = []resourcesv1alpha1.ManagedResource{resource("coredns", "False", "False", "False")}
			}, want{corev1beta1.ShootSystemComponentsHealthy, "False", "ResourcesAppliedReason"},
		},
		"a system component rolls out": {func(o *Observed) {
			o.Resources = []resourcesv1alpha1.ManagedResource{resource("coredns", "True", "True", "True")}
		}, want{corev1beta1.ShootSystemComponentsHealthy, "False", "ResourcesProgressingReason"}},
		"the label assigns a resource to another condition": {func(o *Observed) {
			mr := resource("x", "False", "False", "False")
			mr.Labels = map[string]string{corev1beta1.LabelCareConditionType: string(corev1beta1.ShootControlPlaneHealthy)}
			o.Resources = append(o.Resources, mr)
		}, want{corev1beta1.ShootSystemComponentsHealthy, "True", "SystemComponentsRunning"}},
		"there is no tunnel": {
			func(o *Observed) { o.TunnelPod = false },
			want{corev1beta1.ShootSystemComponentsHealthy, "False", "NoTunnelDeployed"},
		},
		"more nodes than are read": {func(o *Observed) {
			o.TooMuch = map[Kind]string{Nodes: "more than 10000"}
		}, want{corev1beta1.ShootEveryNodeReady, "Unknown", "TooManyObjects"}},
		"more leases than are read": {func(o *Observed) {
			o.TooMuch = map[Kind]string{NodeLeases: "more than 64 MiB"}
		}, want{corev1beta1.ShootEveryNodeReady, "Unknown", "TooManyObjects"}},
		"more leases than are read, and a node that is not ready": {func(o *Observed) {
			o.TooMuch = map[Kind]string{NodeLeases: "more than 64 MiB"}
			o.Nodes[0].Problem = "condition"
		}, want{corev1beta1.ShootEveryNodeReady, "False", "NodeUnhealthy"}},
		"more pods than are read, and none of the tunnel among them": {func(o *Observed) {
			o.TunnelPod, o.TooMuch = false, map[Kind]string{TunnelPods: "more than 64 MiB"}
		}, want{corev1beta1.ShootSystemComponentsHealthy, "Unknown", "TooManyObjects"}},
		"the tunnel is broken": {
			func(o *Observed) { o.TunnelError = errors.New("no session") },
			want{corev1beta1.ShootSystemComponentsHealthy, "False", "TunnelConnectionBroken"},
		},
		"a hibernated Shoot is not checked": {func(o *Observed) {
			o.Shoot.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)}
			o.Shoot.Status.IsHibernated = true
			o.Deployments, o.Etcd, o.HealthStatus = nil, nil, 0
		}, want{corev1beta1.ShootControlPlaneHealthy, "True", reasonNotChecked}},
	} {
		t.Run(name, func(t *testing.T) {
			o := healthyShoot()
			tc.change(o)
			c := corev1beta1.FindCondition(Conditions(o, Settings{StaleAfter: 5 * time.Minute}), tc.want.kind)
			if c.Status != tc.want.status || c.Reason != tc.want.reason {
				t.Errorf("%s = %s, %s (%s), want %s, %s", c.Type, c.Status, c.Reason, c.Message, tc.want.status, tc.want.reason)
			}
		})
	}
}

func TestConstraints(t *testing.T) {
	ca := func(valid time.Duration) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			secretsmanager.LabelName: "ca", secretsmanager.LabelValidUntil: strconv.FormatInt(now.Add(valid).Unix(), 10),
		}}}
	}
	webhook := func(o *Observed, labels, annotations map[string]string) {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "policy", Labels: labels, Annotations: annotations},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "w",
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"*"},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
					},
				}}}},
		}
		o.Webhooks.add(c, webhooksOf(c))
	}
	for name, tc := range map[string]struct {
		change func(*Observed)
		want   string // Type=Status/Reason of all constraints, sorted.
	}{
		"no problems": {
			func(*Observed) {},
			"HibernationPossible=True/NoProblematicWebhooks MaintenancePreconditionsSatisfied=True/NoProblematicWebhooks",
		},
		"a problematic webhook": {
			func(o *Observed) { webhook(o, nil, nil) },
			"HibernationPossible=False/ProblematicWebhooks MaintenancePreconditionsSatisfied=False/ProblematicWebhooks",
		},
		"a webhook that was repaired and is problematic again": {
			func(o *Observed) {
				webhook(o, nil, map[string]string{corev1beta1.AnnotationWarning: "It was changed."})
			},
			"HibernationPossible=False/ProblematicWebhooks MaintenancePreconditionsSatisfied=False/ProblematicWebhooks",
		},
		"a webhook of the system": {
			func(o *Observed) { webhook(o, map[string]string{"origin": "gardener"}, nil) },
			"HibernationPossible=True/NoProblematicWebhooks MaintenancePreconditionsSatisfied=True/NoProblematicWebhooks",
		},
		"more webhooks than are read": {func(o *Observed) {
			o.TooMuch = map[Kind]string{MutatingWebhooks: "more than 64 MiB"}
		}, "HibernationPossible=Unknown/TooManyObjects MaintenancePreconditionsSatisfied=Unknown/TooManyObjects"},
		"more webhooks than are read, and a problematic one": {func(o *Observed) {
			o.TooMuch = map[Kind]string{MutatingWebhooks: "more than 64 MiB"}
			webhook(o, nil, nil)
		}, "HibernationPossible=False/ProblematicWebhooks MaintenancePreconditionsSatisfied=False/ProblematicWebhooks"},
		"more definitions than are read": {func(o *Observed) {
			o.TooMuch = map[Kind]string{Definitions: "one of more than 4 MiB"}
		}, "CRDsWithProblematicConversionWebhooks=Unknown/TooManyObjects HibernationPossible=True/NoProblematicWebhooks " +
			"MaintenancePreconditionsSatisfied=True/NoProblematicWebhooks"},
		"a CA that ends soon": {
			func(o *Observed) { o.CAs = []corev1.Secret{ca(364 * 24 * time.Hour), ca(400 * 24 * time.Hour)} },
			"CACertificateValiditiesAcceptable=False/ExpiringCACertificates " +
				"HibernationPossible=True/NoProblematicWebhooks MaintenancePreconditionsSatisfied=True/NoProblematicWebhooks",
		},
		"no API server": {
			func(o *Observed) { o.HealthStatus = 0 },
			"HibernationPossible=False/ConstraintNotChecked MaintenancePreconditionsSatisfied=False/ConstraintNotChecked",
		},
		"a manual update is pending": {func(o *Observed) {
			pending := &corev1beta1.PendingWorkerUpdates{ManualInPlaceUpdate: []string{"pool"}}
			o.Shoot.Status.InPlaceUpdates = &corev1beta1.InPlaceUpdatesStatus{PendingWorkerUpdates: pending}
		}, "HibernationPossible=True/NoProblematicWebhooks MaintenancePreconditionsSatisfied=True/NoProblematicWebhooks " +
			"ManualInPlaceWorkersUpdated=False/WorkerPoolsWithManualInPlaceUpdateStrategyPending"},
		"a rotation is due, and the cluster is hibernated in every window": {func(o *Observed) {
			sleep, wake := "0 20 * * *", "0 6 * * *"
			o.Shoot.Spec.Hibernation = &corev1beta1.Hibernation{Schedules: []corev1beta1.HibernationSchedule{{
				Start: &sleep, End: &wake,
			}}}
			o.Shoot.Spec.Maintenance = &corev1beta1.Maintenance{
				TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: "220000+0000", End: "230000+0000"},
				AutoRotation: &corev1beta1.MaintenanceAutoRotation{Credentials: &corev1beta1.MaintenanceCredentialsAutoRotation{
					ETCDEncryptionKey: &corev1beta1.MaintenanceRotationConfig{}}},
			}
		}, "AutomaticCredentialsRotationPossible=False/MaintenanceWindowDuringHibernation " +
			"HibernationPossible=True/NoProblematicWebhooks MaintenancePreconditionsSatisfied=True/NoProblematicWebhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			o := healthyShoot()
			tc.change(o)
			var got []string
			for _, c := range Constraints(o) {
				got = append(got, string(c.Type)+"="+string(c.Status)+"/"+c.Reason)
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("Constraints() =\n%s, want\n%s", s, tc.want)
			}
		})
	}
}

func TestDeploymentProblem(t *testing.T) {
	down := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: "False", Message: "Deployment does not have minimum availability.",
	}
	refused := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: "True", Message: `pods "a" is forbidden: exceeded quota`,
	}
	for name, tc := range map[string]struct {
		conditions []appsv1.DeploymentCondition
		available  int32
		want       string
	}{
		"it is available":     {nil, 1, ""},
		"nothing is reported": {nil, 0, "no replica is available"},
		"it is not available": {
			[]appsv1.DeploymentCondition{down}, 0, "Deployment does not have minimum availability",
		},
		"the reason precedes what follows from it": {
			[]appsv1.DeploymentCondition{down, refused}, 0, `pods "a" is forbidden: exceeded quota`,
		},
		"a replica that is refused": {
			[]appsv1.DeploymentCondition{refused}, 1, `pods "a" is forbidden: exceeded quota`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{
				Conditions: tc.conditions, AvailableReplicas: tc.available,
			}}
			if got := deploymentProblem(d); got != tc.want {
				t.Errorf("deploymentProblem() = %q, want %q", got, tc.want)
			}
		})
	}
}
