// Package apiserverfiles checks the files that users write for the API servers of their Shoots and keep in ConfigMaps
// of the project: audit policy, structured authentication and structured authorization. A server with a wrong file does
// not start, so the problem must be found while its author is still there, and once more before the server gets it.
// Kubeconfigs of webhooks are in it, too.
//
// The rules are those of the kube-apiserver, from its libraries, and those of how such a file is used here.
package apiserverfiles
