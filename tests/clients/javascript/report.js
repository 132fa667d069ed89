// Runs checks, prints their results, and counts failures.

import assert from 'node:assert/strict';

/** The namespace of all checks. */
export const namespace = 'javascript';

/** The timeout of a check, in milliseconds. */
const checkTimeout = 30_000;

export class Report {
  failed = 0;

  /** Runs one check: a function that throws if the sentence is false. */
  async check(sentence, body) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done after ${checkTimeout} ms`)), checkTimeout);
    });
    try {
      await Promise.race([body(), late]);
      console.log(`ok javascript ${sentence}`);
    } catch (error) {
      this.failed += 1;
      const reason = String(error.stack ?? error).replace(/\s+/g, ' ').slice(0, 1000);
      console.log(`FAIL javascript ${sentence}: ${reason}`);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Awaits a call that must be refused with a status and a reason. */
export async function refused(code, reason, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code, error);
    assert.equal(JSON.parse(error.body).reason, reason);
    return true;
  });
}

/** A queue of events between callbacks and a consumer. */
export class Events {
  #events = [];
  #waiting = [];

  push(event) {
    const waiter = this.#waiting.shift();
    if (waiter) waiter(event);
    else this.#events.push(event);
  }

  next() {
    if (this.#events.length > 0) return Promise.resolve(this.#events.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
