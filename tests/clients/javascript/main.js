// Tests the API server of $KUBECONFIG with @kubernetes/client-node in its default configuration.
// Prints `ok NAME` or `FAIL NAME: reason` for each check, and fails if a check failed.

import { KubeConfig } from '@kubernetes/client-node';
import { custom } from './custom.js';
import { informers } from './informers.js';
import { Report } from './report.js';
import { typed } from './typed.js';

const config = new KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);

const report = new Report();
await typed(config, report);
await informers(config, report);
await custom(config, report);
// Open keep-alive sockets would prevent the end of the program.
process.exit(report.failed > 0 ? 1 : 0);
