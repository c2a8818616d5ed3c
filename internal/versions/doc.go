// Package versions is the command that shows the offered versions, and the possible updates of one Shoot.
//
// Catalogue lists every version of every profile with its class, its expiration and the Shoots on it. OutlookOf lists
// for one Shoot the versions that its owner may update to, and the updates by maintenance with their times. Both are
// pure.
package versions
