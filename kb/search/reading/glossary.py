"""Synonyms: English and Chinese words, names and their short forms."""

from __future__ import annotations

from kb.search.reading.tokens import HAN_RUN, analyse_query, fold, singular

# One meaning a line. Written as people write it, not as a dictionary would.
MEANINGS = """
gradient = grad = 梯度
loss = 损失
overflow = 溢出
underflow = 下溢
vanishing gradient = 梯度消失
exploding gradient = gradient explosion = 梯度爆炸
gradient clipping = clip grad = 梯度裁剪
gradient accumulation = grad accumulation = 梯度累积 = 梯度累加
gradient checkpointing = activation checkpointing = 梯度检查点 = 激活检查点 = 重计算
checkpoint = 检查点
lost gradient = missing gradient = 梯度丢失
wrong gradient = incorrect gradient = 梯度错误
backward = 反向传播 = 反向
forward = 前向传播 = 前向
training = 训练
inference = 推理
fine-tuning = finetuning = 微调
pretraining = 预训练
weight = 权重
parameter = 参数
bias = 偏置
activation = 激活
attention = 注意力
mask = masked = 掩码 = 遮罩 = 屏蔽
padding = 填充
sequence length = 序列长度
batch = 批次
epoch = 轮次
step = 步数
stride = 步幅 = 步长
learning rate = lr = 学习率
warmup = 预热
weight decay = 权重衰减
decay = 衰减
momentum = 动量
optimizer = 优化器
scheduler = 调度器
normalization = norm = 归一化
layer normalization = layernorm = 层归一化
batch normalization = batchnorm = 批归一化
mixed precision = amp = 混合精度
autocast = 自动混合精度
loss scale = loss scaling = 损失缩放
half precision = 半精度
precision = 精度
quantization = quantize = 量化
rounding = round = 舍入
dtype = data type = 数据类型
bf16 = bfloat16
fp16 = float16
fp32 = float32
fp64 = float64
fp8 = float8
compile = compiled = compilation = 编译
eager = 即时执行
graph break = 图断裂
kernel = 内核 = 算子
operator = op = 算子
tensor = 张量
shape = 形状
dimension = dim = 维度
contiguous = 连续
memory format = 内存格式
misaligned = alignment = 对齐
out of memory = oom = 显存不足 = 内存不足
gpu memory = vram = 显存
memory = 内存
graphics card = gpu = 显卡
driver = 驱动
device = 设备
distributed = 分布式
data parallel = 数据并行
distributeddataparallel = ddp
fully sharded data parallel = fsdp
tensor parallel = 张量并行
pipeline parallel = 流水线并行
scaled_dot_product_attention = sdpa
flashattention = flash attention = flash-attn
communication = 通信
synchronization = sync = 同步
asynchronous = async = 异步
race condition = 竞争 = 竞态
deadlock = hang = 死锁 = 卡住 = 卡死
timeout = 超时
crash = 崩溃
segmentation fault = segfault = 段错误
error = 错误 = 报错
warning = 警告
exception = 异常
anomaly = 异常
assertion = assert = 断言
illegal memory access = 非法内存访问
mismatch = 不匹配 = 不一致
wrong result = incorrect result = 结果错误 = 结果不对
silent = silently = 静默
zero = 零
infinity = inf = 无穷
nan = 非数
numerical = numeric = 数值
numerical stability = 数值稳定
division by zero = divide by zero = 除零 = 除以零
square root = sqrt = 平方根 = 开方
exponential = exp = 指数
logarithm = log = 对数
softmax = 归一化指数
convolution = conv = 卷积
embedding = 嵌入 = 词嵌入
transformer = 变换器
recurrent = 循环
dropout = 随机失活
random seed = seed = 随机种子
deterministic = determinism = 确定性
nondeterministic = nondeterminism = 不确定性
frozen = freeze = 冻结
detach = detached = 分离
in-place = inplace = 原地
view = 视图
copy = 拷贝 = 复制
leaf = 叶子
hook = 钩子
cache = 缓存
version = 版本
upgrade = 升级
downgrade = 降级
nightly = 每夜版
regression = 回归
workaround = 规避方法 = 绕过
fix = fixed = 修复
environment variable = env var = 环境变量
configuration = config = 配置
convergence = converge = 收敛
divergence = diverge = 发散
evaluation = eval = 评估
dataset = 数据集
dataloader = 数据加载
model = 模型
save = 保存
load = 加载
"""
Phrase = tuple[str, ...]


def read_meanings(text: str) -> dict[Phrase, list[Phrase]]:
    """Phrase -> its synonyms. A phrase is its words, or one run of Han characters."""
    synonyms: dict[Phrase, list[Phrase]] = {}
    for line in text.strip().splitlines():
        phrases = [phrase_of(part) for part in line.split(" = ")]
        for phrase in phrases:
            listed = synonyms.setdefault(phrase, [])
            listed += [p for p in phrases if p != phrase and p not in listed]
    return synonyms


def phrase_of(text: str) -> Phrase:
    words = fold(text).lower().split()
    return tuple(singular(word) for word in words)


def tokens_of(phrase: Phrase) -> Phrase:
    """The tokens that a document must have to contain the phrase."""
    return tuple(
        token
        for word in phrase
        for token in (analyse_query(word) if HAN_RUN.match(word) else [word])
    )


SYNONYMS = read_meanings(MEANINGS)
LONGEST = max(map(len, SYNONYMS))
# Those in Chinese, the longest first: 梯度爆炸 before 梯度.
HAN_PHRASES = sorted(
    (phrase[0] for phrase in SYNONYMS if HAN_RUN.match(phrase[0])),
    key=len,
    reverse=True,
)


def synonyms_of(phrase: Phrase) -> tuple[Phrase, ...]:
    """The tokens of each synonym; empty for a phrase that the glossary lacks."""
    return tuple(tokens_of(other) for other in SYNONYMS.get(phrase, ()))
