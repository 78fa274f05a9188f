import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startRedis } from '../../../../scripts/servers/index.mjs'

const source = fileURLToPath(new URL('moved-time.c', import.meta.url))

/** A separate Redis server whose wall clock a test can set, as an operator or NTP does. */
export interface ClockServer extends AsyncDisposable {
  readonly url: string
  /** Sets the clock to this machine's time plus `offset` milliseconds, which may be negative. Takes effect when the server next reads the clock. */
  setClock(offset: number): Promise<void>
}

/** Needs a C compiler, as the tests of pg-native do. */
export async function startClockServer(): Promise<ClockServer> {
  const directory = await mkdtemp(join(tmpdir(), 'ackord-clock-'))
  const [library, clock] = [join(directory, 'moved-time.so'), join(directory, 'offset')]
  // Without truncation: the server may read the file at the same time.
  const setClock = (offset: number) => writeFile(clock, String(offset).padEnd(20), { flag: 'r+' })
  const remove = () => rm(directory, { recursive: true, force: true })
  try {
    await promisify(execFile)('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'])
    // The server may run as another user, which needs access to the directory.
    await chmod(directory, 0o755)
    await writeFile(clock, '0')
    const server = await startRedis({ env: { LD_PRELOAD: library, ACKORD_CLOCK: clock } })
    return {
      url: server.url,
      setClock,
      async [Symbol.asyncDispose]() {
        await server.stop()
        await remove()
      },
    }
  } catch (error) {
    await remove()
    throw error
  }
}
