// Package plan tells what every maintenance window to come will do to every Shoot of a garden.
//
// What package fleet has read is reduced to an Input. Make plays the windows of all Shoots between two times with the
// decisions of package maintenance, which the maintenance controller uses too: the same windows, the same jitter, the
// same choice of versions. Windows in which nothing can happen are skipped, since a decision only changes when the
// class of a version does, a rotation becomes due, or the last decision changed something. That is what makes two years
// of 20,000 Shoots cheap.
//
// The result is a Plan, written as a table, JSON, YAML or an iCalendar, summed up by Summarize and compared with the
// plan under other CloudProfiles by Compare. WriteSteps takes a single decision per Shoot, for tests.
package plan
