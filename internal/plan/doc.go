// Package plan computes what every upcoming maintenance time window will do to every Shoot of a garden.
//
// What package fleet has read is reduced to an Input. Make simulates the windows of all Shoots between two times with
// the decisions of package maintenance, which the maintenance controller uses, too: the same windows, the same jitter,
// the same choice of versions. Windows in which nothing can happen are skipped: a decision changes only when the
// classification of a version changes, when a rotation becomes due, or when the last decision changed something. That
// is what makes two years of 20,000 Shoots cheap.
//
// The result is a Plan. It is written as a table, JSON, YAML or an iCalendar, summarized by Summarize, and compared
// with the plan under other CloudProfiles by Compare. WriteSteps makes a single decision per Shoot, for tests.
package plan
