// Package oci pulls Helm charts from OCI registries.
package oci
