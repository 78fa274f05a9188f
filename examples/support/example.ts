import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { bundle } from '../../scripts/bundle.mjs'

/** An example that runs in a separate process, as with `node dist/main.js`. */
export interface Example extends AsyncDisposable {
  /** The output that showed that the example was ready. */
  readonly ready: string
  /** Sends SIGTERM. Resolves to the exit code when the process has ended by itself. */
  stop(): Promise<number | null>
}

export interface ExampleOptions {
  /** The path of its `src/main.ts`. */
  readonly main: URL
  readonly env: Readonly<Record<string, string>>
  /** The output that shows that the example is ready. Default: an address. */
  readonly ready?: RegExp
}

export async function startExample({ main, env, ready = /http:\/\/127\.0\.0\.1:\d+/ }: ExampleOptions): Promise<Example> {
  const file = fileURLToPath(new URL('../.cache/main.mjs', main))
  await bundle(fileURLToPath(main), file)
  const child = spawn(process.execPath, ['--enable-source-maps', file], {
    env: { ...process.env, HOST: '127.0.0.1', PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close') as Promise<[number | null]>
  return {
    ready: await printed(child, ready),
    async stop() {
      child.kill('SIGTERM')
      const [code] = await ended
      return code
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

function printed(child: ChildProcess, pattern: RegExp): Promise<string> {
  let output = ''
  return new Promise((resolve, reject) => {
    const hear = (data: Buffer) => {
      output += data
      const [found] = pattern.exec(output) ?? []
      if (found !== undefined) resolve(found)
    }
    child.stdout?.on('data', hear)
    child.stderr?.on('data', hear)
    child.once('close', () => reject(new Error(`It ended without saying ${pattern}. It said:\n${output}`)))
  })
}
