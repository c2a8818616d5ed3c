// Command tagger is an extension for tests that has webhooks of all kinds which extensions of others have:
//
//   - in the seed, for OperatingSystemConfigs: nodes get the file [TagPath];
//   - in the seed, for the Deployment of the Shoot's API server: its container gets the environment variable TAGGER;
//   - in the Shoot, served from the seed: pods of the namespace default get the label tagged=true.
//
// A Seed that uses it gets a ConfigMap, which shows the providerConfig.
//
// Its chart is test/e2e/testdata/tagger. Shoots and Seeds use it with spec.extensions[].type: tagged.
package main
