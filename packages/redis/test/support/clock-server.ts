import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startRedis } from '../../../../scripts/servers/index.mjs'

const source = fileURLToPath(new URL('moved-time.c', import.meta.url))

/** A Redis server of its own whose wall clock a test can set, as an operator or NTP does. */
export interface ClockServer extends AsyncDisposable {
  readonly url: string
  /** Sets the clock that many milliseconds ahead of this machine's, or back if it is negative. Holds from the server's next look at it. */
  setClock(offset: number): Promise<void>
}

/** Needs a C compiler, as the tests of pg-native do. */
export async function startClockServer(): Promise<ClockServer> {
  const directory = await mkdtemp(join(tmpdir(), 'ackord-clock-'))
  const [library, clock] = [join(directory, 'moved-time.so'), join(directory, 'offset')]
  // Without truncation: the server may read it meanwhile.
  const setClock = (offset: number) => writeFile(clock, String(offset).padEnd(20), { flag: 'r+' })
  const remove = () => rm(directory, { recursive: true, force: true })
  try {
    await promisify(execFile)('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'])
    // The server may run as another user.
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
