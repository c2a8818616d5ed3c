// Package controllermanager is the part of the garden that looks after everything but the clusters themselves: projects
// and their members, the life cycle of seeds, which extensions each seed needs, and the maintenance of Shoots.
//
// The list of all controllers is in command.go; each is a package of its own, named for its kind and concern.
package controllermanager
