// @ts-check
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { freePort } from './free-port.mjs'
import { startServer } from './server.mjs'

const notInstalled = 'fauxqs is not installed: run npm ci, or set SQS_URL'

/**
 * An emulator of SQS, SNS and S3. It is a package of npm; Debian has none.
 *
 * @type {import('./kind.mjs').Kind}
 */
export const fauxqs = {
  name: 'sqs',
  variable: 'SQS_URL',
  defaultPort: 4566,
  // A server at that port may be another emulator, with other gaps.
  defaultUrl: undefined,
  debianPackage: 'fauxqs',
  locate,
  obstacle: async () => (locate() === undefined ? notInstalled : undefined),
  probe: greetFauxqs,
  start: startFauxqs,
}

/** Its entry. Not by `require.resolve`, which packages that can only be imported do not have. */
function locate() {
  const folders = createRequire(new URL('../../packages/aws/package.json', import.meta.url)).resolve.paths('fauxqs') ?? []
  return folders.map((folder) => join(folder, 'fauxqs/dist/app.js')).find((file) => existsSync(file))
}

/**
 * Lists the queues, which every emulator and SQS itself can do. Any answer in the protocol of SQS is enough, also one that denies it.
 *
 * @param {string} url
 */
async function greetFauxqs(url) {
  // fetch() rejects a URL with a login, and repeats it in the error.
  const endpoint = Object.assign(new URL(url), { username: '', password: '' })
  const answer = await fetch(endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.ListQueues' },
    body: '{}',
    signal: AbortSignal.timeout(5000),
  }).catch((error) => {
    // 'fetch failed' has the reason as its cause.
    throw error.cause instanceof Error ? error.cause : error
  })
  await answer.body?.cancel()
  if (!/x-amz-json/.test(answer.headers.get('content-type') ?? '')) throw new Error('it does not speak the protocol of SQS')
}

/**
 * It keeps everything in memory, so after `restart` it is empty.
 *
 * @returns {Promise<import('./server.mjs').Server>}
 */
export async function startFauxqs() {
  const entry = locate()
  if (entry === undefined) throw new Error(notInstalled)
  // Its command logs each request.
  const program = `import { startFauxqs } from '${pathToFileURL(entry)}'; await startFauxqs({ logger: false })`
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  return await startServer({
    name: 'sqs',
    account: undefined,
    launch: () => ({
      file: process.execPath,
      args: ['--input-type=module', '-e', program],
      env: { FAUXQS_PORT: String(port) },
    }),
    ready: async () => {
      await greetFauxqs(url)
      return url
    },
  })
}
