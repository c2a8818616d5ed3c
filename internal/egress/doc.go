// Package egress decides where a process may connect to on behalf of somebody who is not trusted, and connects.
//
// Rules are pure: they judge addresses and names. Dialer resolves a name once, judges every address of the answer and
// dials only addresses that passed, never the name again. So an answer that changes between check and use changes
// nothing, and neither do spellings of addresses that only some resolvers understand.
//
// Outside makes the rules for what the tenant of a control plane may reach outside of the operator's networks, Inside
// those for what may be reached within the tenant's own.
package egress
