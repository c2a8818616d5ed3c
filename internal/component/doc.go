// Package component has what the folders below it share: the shape of a control plane workload.
//
// Each folder renders one deployed thing. Its Render is a pure function from Values to Kubernetes objects, kept as
// golden YAML in testdata; steps of the gardenlet apply the objects and judge their readiness.
package component
