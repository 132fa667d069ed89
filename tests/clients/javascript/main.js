// Drives the API server of $KUBECONFIG with @kubernetes/client-node, as it is out of the box.
// Prints `ok NAME` or `FAIL NAME: reason` for each check, and fails if one did.

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
// Sockets that are kept alive would keep the program alive as well.
process.exit(report.failed > 0 ? 1 : 0);
