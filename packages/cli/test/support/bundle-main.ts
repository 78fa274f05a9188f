import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const folder = fileURLToPath(new URL('../..', import.meta.url))
/** Of this process: test files run side by side. */
const directory = join(folder, '.cache', `test-${process.pid}`)

/** What `bundleMain()` makes. */
export const main: string = join(directory, 'dist', 'main.mjs')

/** Makes what Node can run of the sources, in a second. Clients of stores and brokers stay apart: they are loaded when they are needed, as in the package. */
export async function bundleMain(): Promise<void> {
  const bundled = await rolldown({
    input: join(folder, 'src/main.ts'),
    platform: 'node',
    external: (id) => /^[^./]/.test(id) && !/^@(ackord|oxc-project)\//.test(id),
    resolve: { conditionNames: ['@ackord/source', 'node', 'import'] },
    transform: { target: 'node20' },
  })
  try {
    await bundled.write({
      dir: dirname(main),
      entryFileNames: 'main.mjs',
      chunkFileNames: '[name]-[hash].mjs',
      format: 'esm',
      sourcemap: true,
    })
  } finally {
    await bundled.close()
  }
  mkdirSync(directory, { recursive: true })
  // Where it reads its version.
  copyFileSync(join(folder, 'package.json'), join(directory, 'package.json'))
}

process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
