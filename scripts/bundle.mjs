// @ts-check
// Bundles a TypeScript program and the sources of our packages into one JavaScript file: Node 20 cannot run TypeScript, and a test that
// starts processes must not depend on a build. Installed packages stay external.
import { rolldown } from 'rolldown'

/**
 * @param {string} program
 * @param {string} file the output file: below the workspace, so that it can resolve installed packages
 */
export async function bundle(program, file) {
  const bundled = await rolldown({
    input: program,
    platform: 'node',
    // The bundler includes its own helpers for newer syntax.
    external: (id) => /^[^./]/.test(id) && !/^@(ackord|oxc-project)\//.test(id),
    resolve: { conditionNames: ['@ackord/source', 'node', 'import'] },
    transform: { target: 'node20' },
    // A test module may be imported for its side effects, although its package declares that it has none.
    treeshake: { moduleSideEffects: (id) => (id.includes('/test/') ? true : undefined) },
  })
  try {
    await bundled.write({ file, format: 'esm', sourcemap: true })
  } finally {
    await bundled.close()
  }
}
