// Package encryption decides how the API servers of a Shoot encrypt what they store in etcd.
//
// A Config configures the API servers: per resource a list of providers, of which the first writes and all read. Next
// leads from the Config in use to that of a Target, one safe change at a time:
//
//  1. learn: all servers can read what the new provider will write;
//  2. write: they write with it;
//  3. rewrite: every object that is stored otherwise is written again, and etcd is read to prove it;
//  4. drop: providers with which nothing is stored any more are removed.
//
// A server that writes with a provider which another one cannot read breaks that other one, hence the pause for a
// roll-out between 1, 2 and 4. An object whose provider has been removed is lost, hence the proof before 4. The Config
// in use is the only memory, so an interruption costs nothing, and the Target may change, also back, at every moment.
package encryption
