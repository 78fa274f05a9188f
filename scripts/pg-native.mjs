// @ts-check
// pg-native, the libpq binding behind pg's native client, has to be compiled. It is an optional dependency, so that `npm ci` works
// without a compiler and without the headers of libpq. The tests need it: this script builds it if `npm ci` could not, or built it for another version of Node.
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { aptInstall, canAptInstall } from './servers/apt-install.mjs'
import { findBinary } from './servers/find-binary.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

if (!canLoad()) {
  await build()
  if (!canLoad()) {
    console.error(
      'pg-native cannot be loaded, and the tests of its client will fail. It needs libpq-dev (its name in Debian), a C++ compiler and Python.',
    )
    process.exit(1)
  }
}

/** In a separate process, because Node caches a failure to load. */
function canLoad() {
  return spawnSync(process.execPath, ['-e', "require('pg-native')"], { cwd: root, stdio: 'ignore' }).status === 0
}

async function build() {
  if (findBinary('pg_config') === undefined && canAptInstall()) {
    console.error('Installing libpq-dev for pg-native …')
    await aptInstall(['libpq-dev', 'build-essential', 'python3'])
  }
  console.error('Building pg-native …')
  // npm removes an optional dependency that it could not build.
  if (existsSync(`${root}node_modules/libpq`)) return npm('rebuild', 'libpq')
  npm('ci', '--no-audit', '--no-fund')
  writeFileSync(`${root}node_modules/.installed`, '')
}

/** @param {string[]} args */
function npm(...args) {
  spawnSync('npm', [...args, '--loglevel=error'], { cwd: root, stdio: 'inherit', env: { ...nodeHeaders(), ...process.env } })
}

/** Node's own headers, if they are installed beside it: otherwise node-gyp would download them. */
function nodeHeaders() {
  const prefix = dirname(dirname(process.execPath))
  return existsSync(join(prefix, 'include', 'node', 'node.h')) ? { npm_config_nodedir: prefix } : {}
}
