import { removeAfterEachFile } from './remove-after-file.ts'

removeAfterEachFile()
