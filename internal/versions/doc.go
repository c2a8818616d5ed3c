// Package versions is the command that shows the catalogue of versions, and the ways that are open to one Shoot.
//
// Catalogue lists every version of every profile with its class, its expiration and the Shoots on it. OutlookOf says
// for one Shoot where its owner may move it, and where and when maintenance will. Both are pure.
package versions
