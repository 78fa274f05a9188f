import { type PackageName, versionOf } from '../pieces/versions.ts'
import { type Parts, piecesOf } from './parts.ts'

/** package.json, tsconfig.json and .gitignore. */
export function packageFiles(parts: Parts): Readonly<Record<string, string>> {
  const pieces = piecesOf(parts)
  const content = {
    name: parts.name,
    version: '0.0.0',
    private: true,
    type: 'module',
    engines: { node: '>=20.19' },
    scripts: {
      start: 'node --import tsx src/main.ts',
      dev: 'node --import tsx --watch src/main.ts',
      send: 'node --import tsx src/send.ts',
      test: 'vitest run',
      typecheck: 'tsc',
      build: 'tsc --project tsconfig.build.json',
    },
    dependencies: versionsOf(['@ackord/core', 'zod', ...pieces.flatMap(({ dependencies }) => dependencies)]),
    devDependencies: versionsOf([
      '@ackord/testkit',
      '@types/node',
      'tsx',
      'typescript',
      'vitest',
      ...pieces.flatMap(({ devDependencies = [] }) => devDependencies),
    ]),
  }
  const ignored = ['node_modules', 'dist', '.env', ...pieces.flatMap(({ ignored = [] }) => ignored)]
  return {
    'package.json': `${JSON.stringify(content, null, 2)}\n`,
    'tsconfig.json': tsconfig({ usesDecorators: parts.framework.usesDecorators ?? false }),
    'tsconfig.build.json': tsconfigBuild,
    '.gitignore': `${ignored.join('\n')}\n`,
  }
}

function versionsOf(names: readonly PackageName[]): Readonly<Record<string, string>> {
  return Object.fromEntries([...new Set(names)].sort().map((name) => [name, versionOf(name)]))
}

const tsconfig = ({ usesDecorators }: { readonly usesDecorators: boolean }) => `{
  "compilerOptions": {
    "target": "es2023",
    "lib": ["es2023", "esnext.disposable"],
    "module": "nodenext",
    "types": ["node"],
    "strict": true,
    "exactOptionalPropertyTypes": true,
    "noUncheckedIndexedAccess": true,
    "noImplicitOverride": true,
    "noImplicitReturns": true,
    "noUnusedLocals": true,
    "noUnusedParameters": true,
    "verbatimModuleSyntax": true,
    "erasableSyntaxOnly": true,${usesDecorators ? '\n    "experimentalDecorators": true,' : ''}
    "rewriteRelativeImportExtensions": true,
    "skipLibCheck": true,
    "noEmit": true
  },
  "include": ["src", "test"]
}
`

const tsconfigBuild = `{
  "extends": "./tsconfig.json",
  "compilerOptions": { "noEmit": false, "rootDir": "src", "outDir": "dist", "sourceMap": true },
  "include": ["src"]
}
`
