package health

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestHealthAndProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		object              string
		unhealthy, progress string // Parts of the reasons; empty means healthy and rolled out.
	}{
		"Deployment, complete": {
			object: `{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {progressDeadlineSeconds: 600}, status: {observedGeneration: 2, conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}}`,
		},
		"Deployment, not observed": {object: `{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: Available, status: "True"}]}}`,
			unhealthy: "observed generation is 1, want 2", progress: "observed generation is 1, want 2"},
		"Deployment, new": {
			object:    `{apiVersion: apps/v1, kind: Deployment, spec: {progressDeadlineSeconds: 600}}`,
			unhealthy: "Available is missing", progress: "Progressing is missing",
		},
		"Deployment, rolling": {object: `{apiVersion: apps/v1, kind: Deployment, status: {conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: ReplicaSetUpdated}]}}`,
			progress: "reason ReplicaSetUpdated"},
		"Deployment, not available": {object: `{apiVersion: apps/v1, kind: Deployment, status: {conditions: [{type: Available, status: "False", message: why}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]}}`,
			unhealthy: "Available is False: why"},
		"Deployment, deadline exceeded": {object: `{apiVersion: apps/v1, kind: Deployment, status: {conditions: [{type: Available, status: "True"}, {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`,
			unhealthy: "Progressing is False", progress: "reason ProgressDeadlineExceeded"},
		"Deployment, pods cannot be created": {object: `{apiVersion: apps/v1, kind: Deployment, status: {conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}, {type: ReplicaFailure, status: "True"}]}}`,
			unhealthy: "ReplicaFailure is True"},
		"StatefulSet, complete": {
			object: `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3}, status: {readyReplicas: 3, updatedReplicas: 3}}`,
		},
		"StatefulSet, not ready": {
			object:    `{apiVersion: apps/v1, kind: StatefulSet, status: {updatedReplicas: 1}}`,
			unhealthy: "0 of 1 replicas are ready",
		},
		"StatefulSet, rolling": {
			object: `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3}, status: {readyReplicas: 3, updatedReplicas: 1}}`, progress: "1 of 3",
		},
		"StatefulSet, partitioned": {
			object: `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {readyReplicas: 3, updatedReplicas: 1}}`,
		},
		"DaemonSet, complete": {
			object: `{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2}}`,
		},
		"DaemonSet, unscheduled": {
			object: `{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 2, currentNumberScheduled: 1, updatedNumberScheduled: 2}}`, unhealthy: "1 of 2 pods are scheduled",
		},
		"DaemonSet, misscheduled": {
			object:    `{apiVersion: apps/v1, kind: DaemonSet, status: {numberMisscheduled: 1}}`,
			unhealthy: "misscheduled",
		},
		"DaemonSet, unavailable": {
			object: `{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberUnavailable: 1}}`, unhealthy: "1 pods are unavailable, 0 may be",
		},
		"DaemonSet, rolling within the limit": {object: `{apiVersion: apps/v1, kind: DaemonSet, spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}}, status: {desiredNumberScheduled: 12, currentNumberScheduled: 12, updatedNumberScheduled: 1, numberUnavailable: 2}}`,
			progress: "1 of 12"},
		"DaemonSet, rolling beyond the limit": {object: `{apiVersion: apps/v1, kind: DaemonSet, spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}}, status: {desiredNumberScheduled: 12, currentNumberScheduled: 12, updatedNumberScheduled: 1, numberUnavailable: 3}}`,
			unhealthy: "3 pods are unavailable, 2 may be", progress: "1 of 12"},
		"ReplicaSet, not ready": {
			object:    `{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 2}, status: {readyReplicas: 1}}`,
			unhealthy: "1 of 2",
		},
		"ReplicationController, not ready": {object: `{apiVersion: v1, kind: ReplicationController}`, unhealthy: "0 of 1"},
		"Pod, running":                     {object: `{apiVersion: v1, kind: Pod, status: {phase: Running}}`},
		"Pod, done":                        {object: `{apiVersion: v1, kind: Pod, status: {phase: Succeeded}}`},
		"Pod, pending": {
			object: `{apiVersion: v1, kind: Pod, status: {phase: Pending}}`, unhealthy: `phase is "Pending"`,
		},
		"Job, running": {object: `{apiVersion: batch/v1, kind: Job}`},
		"Job, failed": {
			object:    `{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: "True", message: why}]}}`,
			unhealthy: "failed: why",
		},
		"Service, internal": {object: `{apiVersion: v1, kind: Service, spec: {type: ClusterIP}}`},
		"Service, without address": {
			object: `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}}`, unhealthy: "no address",
		},
		"Service, with address": {
			object: `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}`,
		},
		"definition, established": {
			object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}}`,
		},
		"definition, names taken": {
			object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, status: {conditions: [{type: NamesAccepted, status: "False"}, {type: Established, status: "True"}]}}`, unhealthy: "NamesAccepted is not True",
		},
		"VPA, unsupported": {
			object: `{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, status: {conditions: [{type: ConfigUnsupported, status: "True", message: why}]}}`, unhealthy: "why",
		},
		"Prometheus, rolling": {
			object: `{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, spec: {replicas: 2}, status: {updatedReplicas: 1, conditions: [{type: Available, status: "True"}, {type: Reconciled, status: "True"}]}}`, progress: "1 of 2",
		},
		"Certificate, pending": {
			object:    `{apiVersion: cert.gardener.cloud/v1alpha1, kind: Certificate, status: {state: Pending}}`,
			unhealthy: `state is "Pending"`,
		},
		"ConfigMap": {object: `{apiVersion: v1, kind: ConfigMap}`},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(tc.object), &u.Object); err != nil {
				t.Fatal(err)
			}
			check := func(what, want string, fn func(*unstructured.Unstructured) (string, error)) {
				got, err := fn(u)
				if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("%s = %q, %v; want %q", what, got, err, want)
				}
			}
			check("Check()", tc.unhealthy, Check)
			check("Progress()", tc.progress, Progress)
		})
	}
}

func TestOldPods(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(2)}}}
	if OldPods(u, 2) != "" || OldPods(u, 3) == "" {
		t.Error("want a reason for three pods and none for two")
	}
}
