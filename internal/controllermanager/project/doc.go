// Package project creates a namespace for every Project and grants its members their roles there.
//
// Trigger: Projects, and their namespaces. Writes: the namespace, roles and bindings, the Project's phase. Finalizer
// "gardener": a Project is removed only after its Shoots and then its namespace are gone.
package project
