// Package tokenmount mounts a ServiceAccount token into pods where Kubernetes does not: the ServiceAccount sets
// automountServiceAccountToken to false, so that no pod gets a token unnecessarily, and the pod does not set the field.
// Charts of extensions rely on it.
package tokenmount
