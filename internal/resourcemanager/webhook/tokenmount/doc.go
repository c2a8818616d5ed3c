// Package tokenmount gives pods a token of their ServiceAccount that Kubernetes does not mount by itself: the
// ServiceAccount has automountServiceAccountToken false, so that no pod gets a token without need, and the pod does not
// say otherwise. Charts of extensions rely on it.
package tokenmount
