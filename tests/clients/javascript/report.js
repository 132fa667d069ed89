// Makes checks, says how they went, and counts those that failed.

import assert from 'node:assert/strict';

/** The namespace in which all checks are made. */
export const namespace = 'javascript';

const patience = 30_000;

export class Report {
  failed = 0;

  /** Makes one check: a function that throws unless the sentence is true. */
  async check(sentence, body) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done after ${patience} ms`)), patience);
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

/** Waits for a call that must be refused, with this status and this reason. */
export async function refused(code, reason, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code, error);
    assert.equal(JSON.parse(error.body).reason, reason);
    return true;
  });
}

/** A queue between those who hear events and the one who waits for them. */
export class Events {
  #heard = [];
  #waiting = [];

  push(event) {
    const waiter = this.#waiting.shift();
    if (waiter) waiter(event);
    else this.#heard.push(event);
  }

  next() {
    if (this.#heard.length > 0) return Promise.resolve(this.#heard.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
