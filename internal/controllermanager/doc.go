// Package controllermanager runs the garden's controllers for everything but the clusters themselves: projects and
// their members, the lifecycle of Seeds, the extensions that each Seed needs, and the maintenance of Shoots.
//
// The list of all controllers is in command.go; each is a package, named for its kind and concern.
package controllermanager
