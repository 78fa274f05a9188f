import { copyFileSync, cpSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const folder = fileURLToPath(new URL('../..', import.meta.url))
/** A path specific to this process, because test files run in parallel. */
const directory = join(folder, '.cache', `test-${process.pid}`)

/** The output of `bundleMain()`. */
export const main: string = join(directory, 'dist', 'main.mjs')

let bundling: Promise<void> | undefined

/** Builds a bundle of the sources that Node can run, once per process, in a second. Clients of stores and brokers stay external: they are loaded on demand, as in the package. */
export function bundleMain(): Promise<void> {
  bundling ??= bundle()
  return bundling
}

async function bundle(): Promise<void> {
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
  // The command reads its version from this file.
  copyFileSync(join(folder, 'package.json'), join(directory, 'package.json'))
  // The dashboard serves the files beside its package.
  cpSync(join(folder, '../dashboard/dist-page'), join(directory, 'dist-page'), { recursive: true })
}

process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
