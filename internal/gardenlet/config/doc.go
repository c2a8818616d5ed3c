// Package config has the configuration file of a gardenlet, group gardenlet.config.gardener.cloud, its defaults and its
// validation.
package config
