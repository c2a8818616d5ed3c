// Package egress decides which connections a process may make on behalf of untrusted users, and makes them.
//
// Rules are pure: they judge addresses and names. Dialer resolves a name once, judges every address of the answer and
// dials only addresses that passed, never the name again. So an answer that changes between check and use changes
// nothing, and neither do spellings of addresses that only some resolvers understand.
//
// Outside returns the rules for destinations that the tenant of a control plane may reach outside of the operator's
// networks, Inside the rules for destinations within the tenant's own networks.
package egress
