/** Of a script: `split(text)` gives the words of a text, and how many they are. */
export const splitLua = `local function split(text)
  local parts, count = {}, 0
  for part in string.gmatch(text, '%S+') do
    count = count + 1
    parts[count] = part
  end
  return parts, count
end`
