package vpnshoot

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
)

// ResourceName is the name of the ManagedResource.
const ResourceName = "shoot-core-vpn-shoot"

// Name of the Deployment; its pods carry it as label app.
const Name = "vpn-shoot"

const (
	namespace  = metav1.NamespaceSystem
	secretName = "vpn-shoot-client"
	pathCerts  = "/etc/tunnel"
	healthPort = 8080
)

// Values is the input of the rendering.
type Values struct {
	Image     string
	Placement component.Placement
	// Gateway is host:port of the seed's gateway; Destination the header value that leads to the tunnel server.
	Gateway     string
	Destination string
	// CABundle, Cert and Key are the client's CA bundle, certificate and key.
	CABundle, Cert, Key []byte
	// Checksum changes with these.
	Checksum string
}

// Render returns the objects for the Shoot.
func Render(v Values) []client.Object {
	labels := map[string]string{component.LabelApp: Name, "type": "tunnel", component.LabelRole: "system-component"}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels}
	}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(healthPort)}},
			PeriodSeconds: 2, TimeoutSeconds: 5, FailureThreshold: 15,
		}
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta(Name), AutomountServiceAccountToken: ptr.To(false)},
		&corev1.Secret{
			ObjectMeta: meta(secretName),
			Type:       corev1.SecretTypeOpaque,
			Data:       map[string][]byte{"ca.crt": v.CABundle, "tls.crt": v.Cert, "tls.key": v.Key},
		},
		&appsv1.Deployment{
			ObjectMeta: meta(Name),
			Spec: appsv1.DeploymentSpec{
				Replicas:             ptr.To(int32(1)),
				RevisionHistoryLimit: ptr.To(int32(2)),
				Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{component.LabelApp: Name}},
				Strategy: appsv1.DeploymentStrategy{
					Type: appsv1.RollingUpdateDeploymentStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDeployment{
						MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
					},
				},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{
						Labels: labels, Annotations: map[string]string{"checksum/secret-" + secretName: v.Checksum},
					},
					Spec: corev1.PodSpec{
						ServiceAccountName:            Name,
						AutomountServiceAccountToken:  ptr.To(false),
						EnableServiceLinks:            ptr.To(false),
						SecurityContext:               component.ConfinedPod(),
						PriorityClassName:             "system-cluster-critical",
						DNSPolicy:                     corev1.DNSDefault, // The gateway's name has to resolve before CoreDNS runs.
						TerminationGracePeriodSeconds: ptr.To(int64(5)),
						NodeSelector:                  v.Placement.NodeSelector,
						Tolerations:                   v.Placement.Tolerations,
						Containers: []corev1.Container{{
							Name:            Name,
							Image:           v.Image,
							ImagePullPolicy: corev1.PullIfNotPresent,
							Command: []string{
								"/usr/local/bin/tunnel", "client",
								"--gateway=" + v.Gateway,
								"--destination=" + v.Destination,
								"--ca-file=" + pathCerts + "/ca.crt",
								"--cert-file=" + pathCerts + "/tls.crt",
								"--key-file=" + pathCerts + "/tls.key",
							},
							Resources:       component.Requests("5m", "8Mi"),
							VolumeMounts:    []corev1.VolumeMount{{Name: "certs", MountPath: pathCerts, ReadOnly: true}},
							ReadinessProbe:  probe("/connectedz"),
							LivenessProbe:   probe("/healthz"),
							SecurityContext: component.ConfinedContainer(),
						}},
						Volumes: []corev1.Volume{{
							Name: "certs", VolumeSource: corev1.VolumeSource{
								Secret: &corev1.SecretVolumeSource{SecretName: secretName, DefaultMode: ptr.To(int32(0o640))},
							},
						}},
					},
				},
			},
		},
	}
}
